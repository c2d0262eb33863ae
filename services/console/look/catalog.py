"""The tables, by the catalog's metadata. A table whose metadata is where it was isn't read again."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from pipelines.lake.names import NAMESPACE
from pipelines.lake.properties import DERIVED, EVENTS, KIND, PUBLISHED_OF, SOURCE_TABLE
from pipelines.maintenance.health import MIB
from pipelines.metrics.meter import Meter
from pipelines.specs.load import Specs
from quality.errors import ContractError
from services.console.house import House, TableView
from services.console.settings import ConsoleSettings
from services.facts.tables import facts
from services.operations.contracts.summary import Promise, promise, protections
from services.operations.maintain.alerts import alerts, condition
from services.operations.maintain.needs import need_of, partitions_of, source_of
from services.stack.lake import open_catalog
from services.stack.published_datasets import DatasetState, dataset_state

# Of its time, so much is spent on looking at most: a thousand tables take as long as they take.
SHARE = 0.2
# How healthy a table's files are takes reading its manifests: not after each commit.
CONDITION_SECONDS = 60.0


class CatalogPart:
    """See Part."""

    name, every = "catalog", 15.0

    def __init__(self, settings: ConsoleSettings, specs: Specs) -> None:
        self._settings, self._specs = settings, specs
        self._datasets: dict[str, tuple[str, str, DatasetState]] = {}

    def look(self, house: House, meter: Meter) -> None:
        """See Part."""
        began, catalog = time.monotonic(), open_catalog(self._settings)
        known, tables, datasets = house.tables, {}, []
        loaded: dict[str, Table] = {}
        for name, table in _every(catalog):
            if table.properties.get(KIND) in (EVENTS, DERIVED) or SOURCE_TABLE in table.properties:
                before = known.get(name)
                same = before is not None and before.location == table.metadata_location
                tables[name] = before if same and before is not None else self._view(table, before)
                if before is not None and not same:
                    meter.add("lakehouse_table_added_bytes_total", added_bytes(table, before), table=name)
                loaded[name] = table
                if not house.tables:
                    # The first look shows what it has so far.
                    house.tables = dict(tables)
            elif PUBLISHED_OF in table.properties:
                datasets.append(table)
        house.tables = tables
        now = datetime.now(UTC)
        house.datasets = tuple(
            (of, dataset_state(dataset, loaded[of], now))
            for dataset in datasets if (of := dataset.properties[PUBLISHED_OF]) in loaded
        )  # fmt: skip
        self._tell(house, meter)
        self.every = max(CatalogPart.every, (time.monotonic() - began) / SHARE)

    def _view(self, table: Table, before: TableView | None) -> TableView:
        snapshot = table.current_snapshot()
        told, source = facts(table, {}, {}, {}), source_of(table)
        assert source is not None
        asked = self._specs.freshness(*source)
        promised, error = _promise(table, source)
        limits = self._specs.alerts(*source)
        bounds = {
            "partition_files": limits.partition_files, "snapshots": limits.snapshots,
            "metadata_bytes": limits.metadata_mib * MIB, "compaction_seconds": limits.compaction_hours * 3600,
        }  # fmt: skip
        view = TableView(table.metadata_location, told, asked, promised, bounds, error=error)
        if snapshot is None:
            return view
        if before is not None and time.monotonic() - before.looked_at < CONDITION_SECONDS:
            return replace(
                view, condition=before.condition, alerts=before.alerts, due=before.due, looked_at=before.looked_at,
                query_seconds=before.query_seconds,
            )  # fmt: skip
        began = time.monotonic()
        # What any engine asks before it reads: which files there are. All else is told by what came of it.
        partitions = partitions_of(table)
        took = time.monotonic() - began
        need = need_of(table, self._specs, partitions)
        found = condition(table, need, partitions)
        said = alerts(limits, found, datetime.now(UTC))
        return replace(view, condition=found, alerts=tuple(said), due=tuple(need.due), query_seconds=took,
                       looked_at=time.monotonic())  # fmt: skip

    def _tell(self, house: House, meter: Meter) -> None:
        views = house.tables

        def each(metric: str, value: dict[str, float | None]) -> None:
            meter.put_all(metric, {(name,): found for name, found in value.items() if found is not None})

        each("lakehouse_table_rows", {name: view.facts.rows for name, view in views.items()})
        each("lakehouse_table_bytes", {name: view.facts.bytes for name, view in views.items()})
        each("lakehouse_table_snapshots", {name: view.facts.snapshots for name, view in views.items()})
        each("lakehouse_table_freshness_asked_seconds", {name: view.asked for name, view in views.items()})
        each("lakehouse_table_query_seconds", {name: view.query_seconds for name, view in views.items()})
        each("lakehouse_table_last_commit_timestamp_seconds",
             {name: _stamp(view.facts.last_commit) for name, view in views.items()})  # fmt: skip
        meter.put_all("lakehouse_table_files", {
            (name, content): count for name, view in views.items()
            for content, count in (("data", view.facts.data_files), ("deletes", view.facts.delete_files))
        })  # fmt: skip
        healthy = {name: view.condition for name, view in views.items() if view.condition is not None}
        each("lakehouse_table_fullest_partition_files", {n: c.partition_files for n, c in healthy.items()})
        each("lakehouse_table_metadata_bytes", {n: c.metadata_bytes for n, c in healthy.items()})
        each("lakehouse_table_scan_cost", {n: c.scan_cost for n, c in healthy.items()})
        each("lakehouse_table_compaction_due", {n: float(c.compaction_due is not None) for n, c in healthy.items()})
        each("lakehouse_table_last_compaction_timestamp_seconds",
             {n: _stamp(c.compacted or c.begun) for n, c in healthy.items()})  # fmt: skip
        meter.put_all("lakehouse_table_limit", {
            (name, of): limit for name, view in views.items() for of, limit in view.limits.items()
        })  # fmt: skip
        meter.put_all(
            "lakehouse_dataset_behind_seconds", {(of, each.role): each.behind_seconds for of, each in house.datasets}
        )


def added_bytes(table: Table, before: TableView) -> int:
    """Return the bytes of files that commits have added to a table since it was looked at, upkeep's among them."""
    since = before.facts.last_commit
    newer = (s for s in table.metadata.snapshots if since is None or s.timestamp_ms > since.timestamp() * 1000)
    return sum(int(s.summary.additional_properties.get("added-files-size", 0)) for s in newer if s.summary)


def _every(catalog: Catalog) -> Iterator[tuple[str, Table]]:
    for namespace, *_ in sorted(catalog.list_namespaces()):
        if namespace == NAMESPACE:
            continue
        for identifier in sorted(catalog.list_tables(namespace)):
            try:
                yield ".".join(identifier), catalog.load_table(identifier)
            except NoSuchTableError:
                continue


def _promise(table: Table, source: tuple[str, str]) -> tuple[Promise | None, str | None]:
    types = {field.name: str(field.field_type) for field in table.schema().fields}
    try:
        return promise(source, types, protections(table)), None
    except ContractError as error:
        return None, str(error)


def _stamp(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
