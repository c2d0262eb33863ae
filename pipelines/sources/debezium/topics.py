"""The topics of a source that Debezium captures."""

from dataclasses import dataclass

from pipelines.sources.debezium.names import escaped, topic_name


@dataclass(frozen=True)
class DebeziumTopics:
    """A :class:`pipelines.sources.base.database.SourceTopics`.

    ``schema_changes``, ``notices``: the names (``schema.table``) that the source has for both.
    """

    name: str
    schemas: tuple[str, ...]
    schema_changes: str
    notices: str

    @property
    def prefixes(self) -> tuple[str, ...]:
        """What the topics of captured tables begin with."""
        return tuple(f"{self.name}.{escaped(schema)}." for schema in self.schemas)

    @property
    def schema_topic(self) -> str:
        """The topic of the schema log."""
        return f"{self.name}.{self.schema_changes}"

    @property
    def notifications(self) -> str:
        """The topic of what the connector says of its snapshots."""
        return f"{self.name}.{self.notices}"

    def topic(self, schema: str, name: str) -> str:
        """Return the topic of a table."""
        return topic_name(self.name, schema, name)
