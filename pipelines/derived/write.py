"""Write the rows of a derived table that differ, in one commit that says of which snapshots it is."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from pipelines.derived.compare import ACTION, DELETE, FILE, INSERT, PLACE, TIMES, UPDATE, check_once
from pipelines.errors import StopPipeline
from pipelines.failpoints import failpoint
from pipelines.lake.arrow_schema import NoArrowType, arrow_field, as_rows
from pipelines.lake.commit import commit
from pipelines.lake.data_files import FileWriter, Partition, WrittenFile, grouped
from pipelines.lake.partition_values import Partitioning
from pipelines.lake.row_delta import commit_row_delta
from pipelines.lake.storage import Storage
from pipelines.lake.table import LakeTable
from pipelines.spark.dataframes import as_view
from pipelines.specs.derived import DerivedSpec
from pipelines.sql import quote

# Of rows that differ, beyond which Spark writes them: they aren't in this process's memory then.
MOST_ROWS = 50_000


@dataclass(frozen=True)
class Written:
    """How many rows were inserted, updated and deleted."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


def write(
    session: SparkSession, spec: DerivedSpec, table: LakeTable, rows: DataFrame, summary: Mapping[str, str]
) -> Written:
    """Write the rows that differ (:func:`pipelines.derived.compare.differing`); none: nothing is committed.

    Raises Moved where somebody else has committed to the table meanwhile, StopPipeline where a key is there twice.
    """
    partitioning = Partitioning.of(table)
    if partitioning is None:
        raise StopPipeline(f"{spec.table} can't be partitioned so here: change layout.partition in its spec")
    few = partitioning.with_values(rows).limit(MOST_ROWS + 1).toArrow()
    if few.num_rows > MOST_ROWS:
        return _merge(session, spec, table, rows, summary)
    check_once(spec, few)
    counts = Counter(few[ACTION].to_pylist())
    if few.num_rows:
        try:
            _commit(session, table, partitioning, few, summary)
        except NoArrowType:
            return _merge(session, spec, table, rows, summary)
    return Written(counts[INSERT], counts[UPDATE], counts[DELETE])


def _commit(
    session: SparkSession, table: LakeTable, partitioning: Partitioning, rows: pa.Table, summary: Mapping[str, str]
) -> None:
    """Write the files, and commit them."""
    fields = [arrow_field(column) for column in table.columns]
    writer = FileWriter(table, Storage.of(session))
    kept = pc.not_equal(rows[ACTION], DELETE).to_numpy(zero_copy_only=False)
    partitions = partitioning.partitions(rows)
    inserts = as_rows(rows.filter(pa.array(kept)), fields)
    chosen = [partitions[index] for index in np.flatnonzero(kept)]
    files = [file for file, _ in writer.parts(inserts, chosen)] if inserts.num_rows else []
    gone = rows.filter(pc.is_valid(rows[FILE]))
    deletes = _deletes(table, writer, gone[FILE].to_pylist(), gone[PLACE].to_pylist())
    writer.finish()
    failpoint("before-merge")
    commit_row_delta(table, files, deletes, summary)
    failpoint("after-merge")
    table.refresh()


def _deletes(table: LakeTable, writer: FileWriter, paths: Sequence[str], places: Sequence[int]) -> list[WrittenFile]:
    if not paths:
        return []
    live = {task["data-file"]["file-path"]: Partition.of(task["data-file"]) for task in table.file_tasks(())}
    together = table.deletes_together
    groups = grouped([(live[path], None if together else path) for path in paths])
    return [
        writer.deletes([(paths[i], int(places[i])) for i in found], partition)
        for (partition, _), found in groups.items()
    ]


def _merge(
    session: SparkSession, spec: DerivedSpec, table: LakeTable, rows: DataFrame, summary: Mapping[str, str]
) -> Written:
    """Have Spark write the rows, which it keeps meanwhile."""
    names = [name for name in rows.columns if name in table.column_types]
    kept = rows.persist()
    try:
        double = kept.where(f"{TIMES} > 1").limit(1).toArrow()
        check_once(spec, double)
        counts = {row[ACTION]: row["count"] for row in kept.groupBy(ACTION).count().collect()}
        with as_view(kept.drop(FILE, PLACE), f"{table.namespace}.{table.name}") as view:
            failpoint("before-merge")
            commit(session, _statement(spec, table, view, names), summary)
            failpoint("after-merge")
    finally:
        kept.unpersist()
    table.refresh()
    return Written(counts.get(INSERT, 0), counts.get(UPDATE, 0), counts.get(DELETE, 0))


def _statement(spec: DerivedSpec, table: LakeTable, view: str, names: Sequence[str]) -> str:
    columns, values = (", ".join(f"{prefix}{quote(name)}" for name in names) for prefix in ("", "c."))
    if table.snapshot_id is None:
        return f"INSERT INTO {table.sql_name} ({columns}) SELECT {columns} FROM {view}"
    same = " AND ".join(f"t.{quote(name)} <=> c.{quote(name)}" for name in spec.key)
    updates = ", ".join(f"t.{quote(name)} = c.{quote(name)}" for name in names)
    return (
        f"MERGE INTO {table.sql_name} AS t USING {view} AS c ON {same}\n"
        f"WHEN MATCHED AND c.{ACTION} = '{DELETE}' THEN DELETE\n"
        f"WHEN MATCHED THEN UPDATE SET {updates}\n"
        f"WHEN NOT MATCHED AND c.{ACTION} <> '{DELETE}' THEN INSERT ({columns}) VALUES ({values})"
    )
