"""What roles are shown of a table, as the lake has it, and how far it is behind."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from pipelines.lake.properties import PUBLISHED_OF, PUBLISHED_ROLE, PUBLISHED_SNAPSHOT
from services.stack.lake import lineage


@dataclass(frozen=True)
class DatasetState:
    """A role's dataset.

    ``snapshot_id``: of its table, which it is of; ``behind_seconds``: since when the table has had a commit that the
    dataset lacks, at least; 0: it lacks none.
    """

    role: str
    table: str
    snapshot_id: str | None
    behind_seconds: float


def datasets_of(catalog: Catalog, namespace: str, name: str) -> list[Table]:
    """Return the datasets of a mirrored table."""
    return [
        found for found in all_datasets(catalog, {namespace}) if found.properties[PUBLISHED_OF] == f"{namespace}.{name}"
    ]


def all_datasets(catalog: Catalog, namespaces: Collection[str]) -> Iterator[Table]:
    """Return all datasets of mirrored tables in these namespaces. One that is dropped meanwhile is left out."""
    for space, *_ in catalog.list_namespaces():
        if any(space.endswith(f"_{namespace}") for namespace in namespaces):
            for identifier in catalog.list_tables(space):
                try:
                    found = catalog.load_table(identifier)
                except NoSuchTableError:
                    continue
                if PUBLISHED_OF in found.properties:
                    yield found


def full_name(dataset: Table) -> str:
    """``lake.<namespace>.<name>``."""
    return ".".join(("lake", *dataset.name()[-2:]))


def dataset_state(dataset: Table, table: Table, now: datetime) -> DatasetState:
    """Return how far a dataset is behind its table."""
    summaries = (s.summary.additional_properties for s in lineage(dataset) if s.summary is not None)
    of = next((summary[PUBLISHED_SNAPSHOT] for summary in summaries if PUBLISHED_SNAPSHOT in summary), None)
    lacking = list(takewhile(lambda snapshot: str(snapshot.snapshot_id) != of, lineage(table)))
    behind = 0.0
    if lacking:
        behind = (now - datetime.fromtimestamp(lacking[-1].timestamp_ms / 1000, UTC)).total_seconds()
    return DatasetState(dataset.properties[PUBLISHED_ROLE], full_name(dataset), of, max(0.0, behind))
