"""The tables that a derived one is made of, each as of one snapshot, as views that its query can name."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from pipelines.errors import AwaitsInput
from pipelines.lake.catalog import Lake
from pipelines.lake.properties import DEFINITION, DERIVED_FROM
from pipelines.lake.table import LakeTable
from pipelines.specs.derived import DerivedSpec


@dataclass(frozen=True)
class Snapshot:
    """One snapshot of a table. ``snapshot`` None: nothing was ever committed to it."""

    uuid: str
    snapshot: int | None
    schema: int

    @classmethod
    def of(cls, table: LakeTable) -> "Snapshot":
        """Return the newest one, as of the table's look-up."""
        return cls(table.uuid, table.snapshot_id, table.identity[1])


Snapshots = Mapping[str, Snapshot]


@dataclass(frozen=True)
class Origin:
    """What a commit says of where a derived table's rows are from: the definition, and a snapshot of each input."""

    definition: str
    snapshots: dict[str, Snapshot]

    def summary(self) -> dict[str, str]:
        """Return it for a commit's summary."""
        told = {alias: [each.uuid, each.snapshot, each.schema] for alias, each in self.snapshots.items()}
        return {DEFINITION: self.definition, DERIVED_FROM: json.dumps(told)}


def origin_of(table: LakeTable | None) -> Origin | None:
    """Return what the table's newest commit says that says it; None: there is none, or no table."""
    for summary in table.summaries() if table is not None else ():
        if DERIVED_FROM in summary:
            told = json.loads(summary[DERIVED_FROM])
            return Origin(summary[DEFINITION], {alias: Snapshot(*entry) for alias, entry in told.items()})
    return None


def definition(spec: DerivedSpec) -> str:
    """Return a short text that is another one whenever the rows may come out differently."""
    window = None if spec.window is None else spec.window.model_dump()
    tables = {alias: each.table for alias, each in spec.inputs.items()}
    text = json.dumps([spec.sql, spec.key, tables, window], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def look_up(lake: Lake, spec: DerivedSpec) -> dict[str, LakeTable]:
    """Return the inputs as they are now, by what the query calls them. Raises AwaitsInput."""
    found = {}
    for alias, each in spec.inputs.items():
        namespace, _, name = each.table.partition(".")
        table = lake.table(namespace, name)
        if table is None:
            raise AwaitsInput(
                f"{spec.table}: the lake has no {each.table} yet, which it is made of (inputs.{alias} in its spec)"
            )
        found[alias] = table
    return found


def show(session: SparkSession, tables: Mapping[str, LakeTable], at: Snapshots, only: Mapping[str, str]) -> None:
    """Let queries of the session name these inputs, as of snapshots.

    ``only``: a condition for the rows of some of them.
    """
    for alias, table in tables.items():
        snapshot = at[alias].snapshot
        version = "" if snapshot is None else f" VERSION AS OF {snapshot}"
        rows = session.sql(f"SELECT * FROM {table.sql_name}{version}")
        rows = rows.limit(0) if snapshot is None else rows
        (rows.where(only[alias]) if alias in only else rows).createOrReplaceTempView(alias)
