"""The spec of an event stream (``kind: events``): a topic that no database writes, appended to a table."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipelines.specs.duration import Duration
from pipelines.specs.layout import Layout
from pipelines.specs.upkeep import Alerts, Upkeep

# A name of the lake's: no quotes are needed, whatever the engine.
LAKE_NAME = r"^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$"
Format = Literal["json", "avro"]
# What becomes of a stream whose schema changes. evolve: the table follows. freeze: it is held. discard_row: records
# that need the change become dead letters.
StreamPolicy = Literal["evolve", "freeze", "discard_row"]


class EventTime(BaseModel):
    """When an event happened, by itself.

    ``column``: a timestamp, required. ``earliest``, ``latest``: an event may be so much older than when Kafka got it,
    and so much newer; others become dead letters. None: as old, or as new, as it may be.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: str
    earliest: Duration | None = None
    latest: Duration | None = None


class Deduplicate(BaseModel):
    """What producers send more than once: of events with one value of ``by`` the first is kept.

    ``within``: so much event time may lie between them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: str
    within: Duration


class StreamChanges(BaseModel):
    """The policy for each kind of change of a stream's schema."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    add: StreamPolicy = "evolve"
    widen: StreamPolicy = "evolve"
    change: Literal["freeze", "discard_row"] = "freeze"


class EventSpec(BaseModel):
    """The spec of one event stream, from its file.

    ``table``: ``namespace.table`` of the lake. ``format``: how values are written. ``subject``: under which the
    registry has their schemas; None: ``<topic>-value``. ``columns``: name to type, in Iceberg's words, of JSON that
    names no schema; ``json_schema``: the same as a JSON Schema; neither: the registry says. ``key``, ``headers``:
    columns for the record's key and its headers, where they are wanted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["events"]
    table: Annotated[str, Field(pattern=LAKE_NAME)]
    topic: str
    format: Format = "json"
    subject: str | None = None
    columns: dict[str, str] | None = None
    json_schema: dict[str, Any] | None = None
    event_time: EventTime
    key: str | None = None
    headers: str | None = None
    deduplicate: Deduplicate | None = None
    freshness_seconds: Annotated[float, Field(ge=1, le=3600)] | None = None
    layout: Layout = Layout()
    schema_changes: StreamChanges = StreamChanges()
    upkeep: Upkeep = Upkeep()
    alerts: Alerts = Alerts()

    @model_validator(mode="after")
    def _has_one_schema(self) -> Self:
        if self.columns is not None and self.json_schema is not None:
            raise ValueError("columns and json_schema both say what the columns are: keep one of them")
        if self.format == "avro" and (self.columns is not None or self.json_schema is not None):
            raise ValueError("Avro is read by the registry's schemas: leave columns and json_schema out")
        return self

    @property
    def name(self) -> tuple[str, str]:
        """Namespace and name of the table."""
        namespace, _, name = self.table.partition(".")
        return namespace, name

    @property
    def registered(self) -> bool:
        """Whether records name a schema of the registry."""
        return self.columns is None and self.json_schema is None

    @property
    def registry_subject(self) -> str:
        """The registry's subject of the values."""
        return self.subject or f"{self.topic}-value"
