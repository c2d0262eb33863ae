"""The protocols of a source, whatever its kind, as pipelines use it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

from pipelines.kafka.profile import TopicProfile
from pipelines.schema.columns import TableShape
from pipelines.schema.versions import TableVersions, Version

# Schema and name, as the source has them.
TableName = tuple[str, str]


@dataclass(frozen=True)
class Schemas:
    """The schemas of a batch's records of one topic.

    ``written``: each shape that the records were written in, with its writer schemas by id, the newest last.
    ``rejected``: for each id that can't be used the reason. ``keys``: the key's columns by the newest key schema; None
    if no record has one.
    """

    written: tuple[tuple[TableShape, dict[int, str]], ...]
    rejected: dict[int, str]
    keys: tuple[str, ...] | None

    @property
    def shape(self) -> TableShape | None:
        """The newest shape that can be used."""
        return self.written[-1][0] if self.written else None


class SchemaLog(Protocol):
    """The history of the captured tables' columns, as the source writes it down. Safe to use from several threads.

    Whatever reads may raise RetryBatch where a server doesn't answer.
    """

    def table(self, schema: str, name: str) -> TableVersions:
        """Return what is known of a table."""
        ...

    def named(self, topic: str) -> TableName:
        """Return the table of a topic."""
        ...

    def explained(self, schema: str, name: str, explains: Callable[[TableVersions], bool]) -> TableVersions:
        """Return what is known of a table once that ``explains`` what was met, or after a while as it is."""
        ...

    def news(self) -> set[TableName]:
        """Return the tables of which there is something new that this hasn't said yet."""
        ...

    def catch_up(self) -> None:
        """Read what is new."""
        ...

    def is_read(self) -> bool:
        """Return whether nothing is in the log now that wasn't read."""
        ...


class StreamSource(Protocol):
    """One source as a stream of topics: whose they are, what their records say, and the history of its tables.

    ``name``: the first part of its topics' names. ``topic_pattern``: a Java regular expression for the topics that are
    read: every captured table's, and ``own_topics``, which are of no table; ``schema_topic``: the one of these that has
    the schema log.
    """

    name: str
    schema_log: SchemaLog

    @property
    def topic_pattern(self) -> str:
        """A Java regular expression for all topics that are read."""
        ...

    @property
    def own_topics(self) -> frozenset[str]:
        """Topics that are read and are of no table."""
        ...

    @property
    def schema_topic(self) -> str:
        """The topic of the schema log."""
        ...

    def topic(self, table: TableName) -> str:
        """Return the topic of a table."""
        ...

    def can_name(self, table: TableName, version: Version) -> bool:
        """Return whether the table can be captured and mirrored under its names in this version."""
        ...

    def schemas(self, profile: TopicProfile, table: TableName) -> Schemas:
        """Return the schemas of the ids that ``profile`` has, of events of ``table``. Raises RetryBatch."""
        ...

    def newest_schemas(self, topic: str) -> TopicProfile | None:
        """Return what records of a topic hold that are written by its newest schemas; None: it has none.

        Raises RetryBatch.
        """
        ...

    def decode(
        self,
        raw: DataFrame,
        shape: TableShape,
        writers: Mapping[int, str],
        rejected: Mapping[int, str],
        keyless: bool = False,
        carry: tuple[str, ...] = (),
    ) -> DataFrame:
        """Return the change rows (see :mod:`pipelines.sources.base.change_rows`) of one topic's raw records.

        ``writers``: schema id to writer schema; ``rejected``: schema id to the problem with every record that has it.
        ``keyless``: of a table without a key. ``carry``: columns of ``raw`` that the change rows have as well.
        """
        ...
