"""The lake's side: tables through the REST catalog, pinned at a snapshot, and a DuckDB that can read their files."""

import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, RESTError
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot as LakeSnapshot
from requests.exceptions import RequestException

from pipelines.lake.names import DEAD_LETTERS, NAMESPACE
from pipelines.lake.properties import DERIVED, EVENTS, KEY_COLUMNS, KIND, SOURCE_SCHEMA, SOURCE_TABLE, TOPIC, WITHHELD
from pipelines.ledger.entries import Ledger, read_ledger
from services.stack.endpoints import StackSettings
from services.stack.errors import Unreachable
from services.stack.rest_catalog import TIMEOUT_SECONDS, LimitedRestCatalog

LSN_COLUMN = "_lsn"


@dataclass(frozen=True)
class PinnedTable:
    """A mirrored table as of one snapshot.

    ``snapshot_id`` None: it has no rows yet. ``key`` (): it has no key. ``withheld``: columns of the source that its
    spec keeps it from following, and what isn't followed.
    """

    namespace: str
    name: str
    schema: str
    source_table: str
    topic: str
    key: tuple[str, ...]
    snapshot_id: int | None
    state: Ledger
    table: Table = field(repr=False, compare=False)
    withheld: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def full_name(self) -> str:
        """``lake.<namespace>.<name>``."""
        return f"lake.{self.namespace}.{self.name}"

    @property
    def source_name(self) -> str:
        """``<schema>.<table>``."""
        return f"{self.schema}.{self.source_table}"


def open_catalog(settings: StackSettings) -> Catalog:
    """Return the REST catalog, for PyIceberg, with the operator's S3 keys. Raises Unreachable.

    Where the settings have a time limit, a catalog that gives no answer raises requests' Timeout.
    """
    # PyIceberg warns at every write to a table that says how large its row groups are: it can only count their rows.
    warnings.filterwarnings("ignore", "Parquet writer option", UserWarning)
    try:
        properties = {
            "uri": settings.catalog_uri, "warehouse": settings.warehouse,
            "s3.endpoint": settings.s3_endpoint, "s3.region": settings.s3_region,
            "s3.access-key-id": settings.operator_s3_access_key.get_secret_value(),
            "s3.secret-access-key": settings.operator_s3_secret_key.get_secret_value(),
            "s3.connect-timeout": "5",
        }  # fmt: skip
        if settings.catalog_timeout_seconds is None:
            return load_catalog("lake", type="rest", **properties)
        return LimitedRestCatalog("lake", **properties, **{TIMEOUT_SECONDS: f"{settings.catalog_timeout_seconds}"})
    except (RequestException, RESTError) as error:
        raise Unreachable("The Iceberg catalog", settings.catalog_uri, type(error).__name__) from error


def tables(catalog: Catalog, settings: StackSettings) -> Iterator[Table]:
    """Return every table of this source's namespaces. A table dropped meanwhile is left out. Raises Unreachable."""
    own = settings.source_name
    return _tables(catalog, settings, lambda name: name == own or name.startswith(f"{own}_"))


def streams(catalog: Catalog, settings: StackSettings) -> Iterator[Table]:
    """Return the tables of event streams, as :func:`tables` does."""
    return (table for table in beside(catalog, settings) if table.properties[KIND] == EVENTS)


def beside(catalog: Catalog, settings: StackSettings) -> Iterator[Table]:
    """Return the tables of event streams and derived tables, as :func:`tables` does."""
    own = settings.source_name
    for table in _tables(catalog, settings, lambda name: name not in (own, NAMESPACE)):
        if table.properties.get(KIND) in (EVENTS, DERIVED):
            yield table


def every_table(catalog: Catalog, settings: StackSettings) -> Iterator[Table]:
    """Return every table of the lake, as :func:`tables` does."""
    return _tables(catalog, settings, lambda _: True)


def _tables(catalog: Catalog, settings: StackSettings, wanted: Callable[[str], bool]) -> Iterator[Table]:
    try:
        for namespace in sorted(catalog.list_namespaces()):
            if not wanted(namespace[0]):
                continue
            for identifier in sorted(catalog.list_tables(namespace)):
                try:
                    yield catalog.load_table(identifier)
                except NoSuchTableError:
                    continue
    except (RequestException, RESTError) as error:
        raise Unreachable("The Iceberg catalog", settings.catalog_uri, type(error).__name__) from error


def called(table: str) -> set[str]:
    """Return what people call the table ``namespace.name`` of the lake."""
    return {table, table.split(".", 1)[1], f"lake.{table}"}


def own_table(catalog: Catalog, name: str) -> Table | None:
    """Return a table of the platform itself, or None while there hasn't been anything to keep in it."""
    try:
        return catalog.load_table((NAMESPACE, name))
    except (NoSuchTableError, NoSuchNamespaceError):
        return None


def dead_letters(catalog: Catalog) -> Table | None:
    """Return the table of dead letters, or None while there hasn't been one."""
    return own_table(catalog, DEAD_LETTERS)


def lineage(table: Table) -> Iterator[LakeSnapshot]:
    """Return the table's snapshots from the current one back along its ancestors, as far as they are kept."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)


def ledger_of(table: Table) -> Ledger:
    """Return what of its topic the table holds, from the newest snapshot that says so."""
    summaries = (snapshot.summary for snapshot in lineage(table))
    return read_ledger(summary.additional_properties for summary in summaries if summary is not None)


def pin(table: Table) -> PinnedTable | None:
    """Return the table at its current snapshot, or None if it mirrors no source table."""
    properties = table.properties
    if SOURCE_TABLE not in properties:
        return None
    namespace, name = table.name()[-2:]
    snapshot = table.current_snapshot()
    return PinnedTable(
        namespace=namespace, name=name, schema=properties[SOURCE_SCHEMA],
        source_table=properties[SOURCE_TABLE], topic=properties[TOPIC],
        key=tuple(json.loads(properties[KEY_COLUMNS])),
        withheld=json.loads(properties.get(WITHHELD, "{}")),
        snapshot_id=None if snapshot is None else snapshot.snapshot_id, state=ledger_of(table), table=table,
    )  # fmt: skip
