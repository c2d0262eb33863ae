"""World: how what readers tell of is called, and what is known of it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Protocol

import pyspark
from openlineage.client.event_v2 import RunEvent
from openlineage.client.generated.base import RunFacet
from openlineage.client.generated.column_lineage_dataset import Transformation
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lineage import facets, names
from lineage.events import Read, Written
from lineage.facets import IDENTITY, Facets
from lineage.names import Name
from pipelines.dead_letters.store import DEAD_LETTER_TOPIC
from pipelines.lake.names import DEAD_LETTERS, NAMESPACE
from pipelines.lake.properties import (
    COMMENT,
    CONTRACT_CLASSES,
    CONTRACT_OWNER,
    CONTRACT_PROTECTED,
    CONTRACT_STEWARD,
    TOPIC,
)
from pipelines.schema.technical import TECHNICAL
from services.lineage.settings import LineageSettings
from services.operations.maintain.needs import source_of
from services.stack.lake import beside, open_catalog, tables

State = dict[str, object]
SPARK = "SPARK"
# What a change event says of itself, by the technical column that keeps it.
_OF_EVENT = {
    "_lsn": "source.lsn", "_committed_at": "source.ts_us", "_op": "op", "_kafka_partition": "partition",
    "_kafka_offset": "offset",
}  # fmt: skip
OF_EVENT = Transformation("DIRECT", "TRANSFORMATION", "of the change event, or where it was read")


class Reader(Protocol):
    """Tells of one kind of work. ``name``: unique, and kept with how far it has come."""

    name: str

    def look(self, world: "World", state: State) -> Iterator[tuple[list[RunEvent], State]]:
        """Return what is new since ``state`` ({} at first), in pieces, each with the state once it is told."""


@dataclass(frozen=True)
class World:
    """The stack, as one look sees it: what it has read of the catalog once isn't read again."""

    settings: LineageSettings
    now: datetime

    @cached_property
    def catalog(self) -> Catalog:
        """The lake's catalog."""
        return open_catalog(self.settings)

    @cached_property
    def mirrored(self) -> list["Mirrored"]:
        """The tables that mirror one of the source."""
        found = tables(self.catalog, self.settings)
        return [Mirrored(self, table, source) for table in found if (source := source_of(table)) is not None]

    @cached_property
    def beside(self) -> list[Table]:
        """The tables of event streams, and those that are computed."""
        return list(beside(self.catalog, self.settings))

    def located(self, table: Table) -> tuple[Name, Facets]:
        """Return a table of the lake, and what makes it one."""
        namespace, name = table.name()[-2:]
        return self.lake_table(namespace, name, table.location())

    def described(self, table: Table, snapshot: int | None = None) -> tuple[Name, Facets]:
        """Return a table of the lake, with all that is known of it but where its columns come from."""
        properties = table.properties
        name, about = self.located(table)
        found, known = table.snapshot_by_id(snapshot) if snapshot is not None else None, table.schemas()
        schema = known.get(found.schema_id, table.schema()) if found and found.schema_id else table.schema()
        classes = json.loads(properties.get(CONTRACT_CLASSES, "{}"))
        return name, {
            **about,
            **facets.schema((f.name, str(f.field_type), f.doc) for f in schema.fields),
            **(facets.version(str(snapshot)) if snapshot is not None else {}),
            **facets.ownership({"owner": properties.get(CONTRACT_OWNER), "steward": properties.get(CONTRACT_STEWARD)}),
            **facets.documentation(properties.get(COMMENT)),
            **facets.tags("classification", classes, "CONTRACT"),
        }

    def of_topic(self, topic: str) -> "Mirrored | None":
        """Return the table that mirrors a topic."""
        return next((table for table in self.mirrored if table.topic == topic), None)

    def of_name(self, name: str) -> "Mirrored | None":
        """Return the mirrored table of this name in the lake."""
        return next((table for table in self.mirrored if table.name == name), None)

    def topic(self, topic: str) -> Name:
        """Return a topic's name."""
        return names.topic(self.settings.kafka_bootstrap, topic)

    def lake_table(self, namespace: str, name: str, location: str) -> tuple[Name, Facets]:
        """Return a table of the lake, and what makes it one."""
        symlink = names.catalogued(self.settings.catalog_uri, namespace, name)
        return names.location(location), facets.lake_table(symlink, self.settings.catalog_uri, self.settings.warehouse)

    def dead_letters(self, count: int) -> list[Written]:
        """Return where records go that can't be merged."""
        location = f"{self.settings.warehouse}/{NAMESPACE}/{DEAD_LETTERS}"
        table, about = self.lake_table(NAMESPACE, DEAD_LETTERS, location)
        return [
            Written(self.topic(DEAD_LETTER_TOPIC), {}, facets.written(count)),
            Written(table, about, facets.written(count)),
        ]

    @property
    def engine(self) -> dict[str, RunFacet]:
        """What the mirror, checks and maintenance run on."""
        return facets.engine("Spark", pyspark.__version__)


@dataclass(frozen=True)
class Mirrored:
    """A table of the lake that mirrors one of the source (schema and name)."""

    world: World
    table: Table
    source_table: tuple[str, str]

    @property
    def name(self) -> str:
        """``namespace.name`` in the lake."""
        return ".".join(self.table.name()[-2:])

    @property
    def topic(self) -> str:
        """The topic it is made of."""
        return self.table.properties[TOPIC]

    @property
    def identity(self) -> str:
        """Another one for each table that had the name."""
        return str(self.table.metadata.table_uuid)

    def schema(self, snapshot: int | None = None) -> Schema:
        """Its columns as of a snapshot, as far as that is kept; else as they are."""
        found = self.table.snapshot_by_id(snapshot) if snapshot is not None else None
        known = self.table.schemas()
        return known.get(found.schema_id, self.table.schema()) if found and found.schema_id else self.table.schema()

    def columns(self, snapshot: int | None = None) -> list[str]:
        """Return the columns that are the source's."""
        return [field.name for field in self.schema(snapshot).fields if field.name not in TECHNICAL]

    @property
    def source(self) -> Name:
        """The source's table."""
        at = self.world.settings
        return names.postgres(at.source_db_host, at.source_db_port, at.source_db_name, *self.source_table)

    @property
    def read_topic(self) -> Read:
        """The topic, as an input."""
        return Read(self.world.topic(self.topic), self._plain)

    @property
    def written_topic(self) -> Written:
        """The topic, as what is made of the source's table."""
        made = {name: (name, IDENTITY) for name in self.columns()}
        return Written(self.world.topic(self.topic), self._plain | facets.column_lineage(self.source, made))

    @property
    def read_source(self) -> Read:
        """The source's table, as an input. Its schema is told by Debezium, with the source's own types."""
        return Read(self.source)

    def lake(self, snapshot: int | None = None) -> tuple[Name, Facets]:
        """Return the table itself, with all that is known of it but where its columns come from."""
        return self.world.described(self.table, snapshot)

    def made(self, snapshot: int | None = None) -> Facets:
        """Return where its columns come from."""
        done = masks(self.table)
        columns = {name: (name, done.get(name, IDENTITY)) for name in self.columns(snapshot)}
        of_event = {
            field.name: (_OF_EVENT[field.name], OF_EVENT)
            for field in self.schema(snapshot).fields if field.name in _OF_EVENT
        }  # fmt: skip
        return facets.column_lineage(self.world.topic(self.topic), columns | of_event)

    @property
    def _plain(self) -> Facets:
        return facets.schema((name, None, None) for name in self.columns())


def masks(table: Table) -> dict[str, Transformation]:
    """Return column to how its values are hidden, of those that a table's contract protects."""
    done = json.loads(table.properties.get(CONTRACT_PROTECTED, "{}"))
    return {name: facets.masked(how) for name, how in done.items()}


def committed_at(snapshot: Snapshot) -> datetime:
    """Return when a snapshot was committed."""
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
