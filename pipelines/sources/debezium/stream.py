"""A source that Debezium captures, as a stream of topics."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from pipelines.kafka.profile import TopicProfile
from pipelines.kafka.registry import SchemaLookup
from pipelines.schema.columns import TableShape
from pipelines.schema.versions import TableVersions, Version
from pipelines.sources.base.source import SchemaLog, Schemas, TableName
from pipelines.sources.debezium import decode, schemas
from pipelines.sources.debezium.dialect import Dialect
from pipelines.sources.debezium.names import escaped, topic_name, why_unusable


@dataclass
class DebeziumStream:
    """A :class:`pipelines.sources.base.source.StreamSource` that Debezium captures.

    ``captured``: the source's captured schemas. ``unavailable_value``: what stands for a value that the connector left
    out. ``heartbeat``, ``schema_changes``: the names (``schema.table``) of the tables in which the source keeps both.
    """

    name: str
    captured: Sequence[str]
    dialect: Dialect
    registry: SchemaLookup
    schema_log: SchemaLog
    unavailable_value: str
    heartbeat: str
    schema_changes: str

    @property
    def topic_pattern(self) -> str:
        """A Java regular expression for all topics that are read.

        Every captured table's topic, the heartbeat, which keeps lag visible, and the schema log, which tables follow.
        """
        return topic_pattern(self.name, self.captured, (self.heartbeat, self.schema_changes))

    @property
    def own_topics(self) -> frozenset[str]:
        """The heartbeat's topic and the schema log's."""
        return frozenset({f"{self.name}.{self.heartbeat}", self.schema_topic})

    @property
    def schema_topic(self) -> str:
        """The topic of the schema log."""
        return f"{self.name}.{self.schema_changes}"

    def topic(self, table: TableName) -> str:
        """Return the topic of a table."""
        return topic_name(self.name, *table)

    def can_name(self, table: TableName, version: Version) -> bool:
        """Return whether the table can be captured and mirrored under its names in this version."""
        return why_unusable(self.name, *table, (column.name for column in version.columns)) is None

    def schemas(self, profile: TopicProfile, table: TableName) -> Schemas:
        """Return the schemas of the ids that ``profile`` has, of events of ``table``. Raises RetryBatch."""

        def found(versions: TableVersions) -> Schemas:
            bases = tuple((name.upper(), base.upper()) for name, base in versions.bases)
            return schemas.look_up(self.registry, profile, table, self.dialect, bases)

        def explain(schemas: Schemas, versions: TableVersions) -> bool:
            unexplained = {column for shape, _ in schemas.written for column in shape.unexplained}
            return unexplained <= {(c.name, c.type.upper()) for v in versions.versions for c in v.columns}

        known = self.schema_log.table(*table)
        schemas_known = found(known)
        if explain(schemas_known, known):
            return schemas_known
        return found(self.schema_log.explained(*table, lambda versions: explain(found(versions), versions)))

    def newest_schemas(self, topic: str) -> TopicProfile | None:
        """Return what records of a topic hold that are written by its newest schemas. Raises RetryBatch."""
        value, key = (self.registry.newest(f"{topic}-{part}") for part in ("value", "key"))
        if value is None or key is None:
            return None
        return TopicProfile(topic, schema_ids={value: 0}, key_schema_ids={key})

    def decode(
        self,
        raw: DataFrame,
        shape: TableShape,
        writers: Mapping[int, str],
        rejected: Mapping[int, str],
        keyless: bool = False,
        carry: tuple[str, ...] = (),
    ) -> DataFrame:
        """Return the change rows of one topic's raw records (see :func:`pipelines.sources.debezium.decode.decode`)."""
        return decode.decode(raw, shape, writers, rejected, self.unavailable_value, self.dialect, keyless, carry)


def topic_pattern(source: str, schemas: Sequence[str], own: Sequence[str]) -> str:
    """Return a Java regular expression for the topics of these schemas' tables and of a source's ``own`` tables."""
    captured = "|".join(re.escape(escaped(schema)) for schema in schemas)
    # Spark looks for the pattern anywhere in a name, so both ends are tied.
    return rf"^{re.escape(source)}\.(({captured})\..+|{'|'.join(map(re.escape, own))})$"
