"""Write few changes into a table with a key directly: look their rows up, write a file, delete positions.

It does what the MERGE of :mod:`pipelines.merge.statement` does, by the same rules, without the planning, compiling and
starting of tasks that cost the same however few the changes are. What it can't do it leaves to that.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.lake.arrow_schema import NoArrowType, arrow_field, as_rows
from pipelines.lake.data_files import FileWriter, Partition, grouped
from pipelines.lake.file_rows import FileRows, FoundRow, LiveFile
from pipelines.lake.live_rows import LiveRows
from pipelines.lake.partition_values import Partitioning
from pipelines.lake.row_delta import commit_row_delta
from pipelines.lake.storage import Storage
from pipelines.lake.table import LakeTable
from pipelines.limits import Limits
from pipelines.merge import keyed
from pipelines.merge.changes import MergeInput, PreparedWrite, Strategy
from pipelines.merge.fold import KEEP, LACKS, OP, fold
from pipelines.merge.moved import origin_columns, origins
from pipelines.schema.columns import TableShape
from pipelines.schema.technical import SNAPSHOT_READ
from pipelines.sources.base.change_rows import DELETE
from pipelines.spark.session import configured


def takes(changes: MergeInput, limits: Limits) -> bool:
    """Return whether changes may be written directly, as far as that can be told before their rows are looked up."""
    stats, batch = changes.stats, changes.batch
    return (
        bool(changes.keys)
        and changes.live is not None
        and stats.live <= limits.direct_changes
        and changes.truncated is None
        and not changes.resynced_from
        and batch.versions is None
        and not stats.replayed
    )


@contextmanager
def prepare(changes: MergeInput, strategy: Strategy, limits: Limits) -> Iterator[PreparedWrite]:
    """Prepare the write of changes to a table with a key. What is prepared holds within the block."""
    partitioning = Partitioning.of(changes.table)
    write = None
    if partitioning is not None:
        with changes.batch.outcome.stage("fold"), configured(changes.batch.session, strategy.narrow):
            incomplete = changes.stats.incomplete > 0
            more = origin_columns(changes.good, changes.keys) if incomplete else []
            folded = fold(changes.good, changes.shape, changes.keys, incomplete, more=more)
            rows = partitioning.with_values(folded).toArrow()
        assert changes.live is not None
        storage = Storage.of(changes.batch.session)
        with changes.batch.outcome.stage("look_up"):
            write = DirectWrite.of(
                changes.table, changes.live, storage, rows, changes.shape, changes.keys, partitioning
            )
    if write is None:
        with keyed.prepare(changes, strategy, limits) as prepared:
            yield prepared
    else:
        yield PreparedWrite(write.commit, changes.counts(write.changes, 0), [], "direct")


@dataclass(frozen=True)
class DirectWrite:
    """A write that is worked out: rows to insert, each with its partition, and live rows to delete.

    ``changes``: how many changes there were, of one key each.
    """

    table: LakeTable
    live: LiveRows
    storage: Storage
    keys: tuple[str, ...]
    changes: int
    inserts: pa.Table
    partitions: Sequence[Partition]
    deletes: Sequence[FoundRow]

    @classmethod
    def of(
        cls, table: LakeTable, live: LiveRows, storage: Storage, rows: pa.Table, shape: TableShape,
        keys: tuple[str, ...], partitioning: Partitioning,
    ) -> "DirectWrite | None":  # fmt: skip
        """Work out what the folded changes ``rows`` do to the table, as it is now. Raises OSError.

        None: that must be left to MERGE, which has no limits of Arrow's.
        """
        try:
            fields = [arrow_field(column) for column in table.columns]
            values = as_rows(rows, fields)
            found = live.find(table, values.select(keys))
            if found is None:
                return None
            by_change = {row.change: row for row in found}
            if len(by_change) != len(found):
                # A key that is there twice.
                return None
            outdated = _outdated(rows, by_change)
            deleted = pc.equal(rows[OP], DELETE).to_numpy(zero_copy_only=False)
            if KEEP in rows.column_names:
                origin = origins(rows, values.select(keys), by_change, outdated)
                if origin is None:
                    return None
                deleted[list(origin)] = False
                wanted, sources = _wanted_values(rows, shape, outdated | deleted, origin), {**by_change, **origin}
                if any(change not in sources for changes in wanted.values() for change in changes):
                    return None
                values = _with_old_values(values, live, wanted, sources)
            taken = ~outdated & ~deleted
            partitions = partitioning.partitions(rows)
            return cls(
                table=table, live=live, storage=storage, keys=keys, changes=rows.num_rows,
                inserts=values.filter(pa.array(taken)),
                partitions=[partitions[index] for index in np.flatnonzero(taken)],
                deletes=[row for row in found if not outdated[row.change]],
            )  # fmt: skip
        except (NoArrowType, pa.ArrowException):
            return None

    def commit(self, summary: Mapping[str, str]) -> None:
        """Write the files, and commit them with ``summary``."""
        table, writer, before = self.table, FileWriter(self.table, self.storage), self.table.snapshot_id
        written, remembered = [], []
        for file, rows in writer.parts(self.inserts, self.partitions):
            written.append(file)
            live = LiveFile(file.location, file.partition, rows.num_rows, {})
            remembered.append((live, FileRows.of(rows.select(self.keys), rows["_lsn"], rows["_op"])))
        together = table.deletes_together
        groups = grouped([(row.file.partition, None if together else row.file.location) for row in self.deletes])
        deletes = [
            writer.deletes([(self.deletes[i].file.location, self.deletes[i].place) for i in places], partition)
            for (partition, _), places in groups.items()
        ]
        writer.finish()
        commit_row_delta(table, written, deletes, summary)
        self.live.committed(table, before, remembered, self.deletes)


def _outdated(rows: pa.Table, found: Mapping[int, FoundRow]) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Return which changes are older than the row that the table has (see :mod:`pipelines.merge.statement`)."""
    positions, operations = rows["_lsn"].to_pylist(), rows["_op"].to_pylist()
    outdated = np.zeros(rows.num_rows, np.bool_)
    for change, row in found.items():
        newer = positions[change] >= row.log_position or operations[change] == SNAPSHOT_READ or row.read
        outdated[change] = not newer
    return outdated


def _wanted_values(
    rows: pa.Table, shape: TableShape, unneeded: "np.ndarray[tuple[int], np.dtype[np.bool_]]", moved: Iterable[int]
) -> dict[str, list[int]]:
    """Return, for each column, the changes whose value of it is in the table. ``moved``: those that came with a key."""
    keep, lacks = rows[KEEP].combine_chunks(), rows[LACKS].combine_chunks()
    arrived = np.zeros(rows.num_rows, np.bool_)
    arrived[list(moved)] = True
    wanted = {}
    for column in shape.toastable:
        kept, lost = (
            pc.fill_null(pc.struct_field(flags, column.name), False).to_numpy(zero_copy_only=False)
            for flags in (keep, lacks)
        )
        wanted[column.name] = [int(change) for change in np.flatnonzero((kept | (lost & arrived)) & ~unneeded)]
    return {name: changes for name, changes in wanted.items() if changes}


def _with_old_values(
    values: pa.Table, live: LiveRows, wanted: Mapping[str, Sequence[int]], found: Mapping[int, FoundRow]
) -> pa.Table:
    """Return ``values`` with those that the changes left out, from the table's own files."""
    if not wanted:
        return values
    changes = sorted({change for each in wanted.values() for change in each})
    fields = [values.schema.field(name) for name in wanted]
    files = grouped([found[change].file.location for change in changes])
    parts, order = [], []
    for places in files.values():
        rows = [found[changes[index]] for index in places]
        parts.append(live.read(rows[0].file, np.array([row.place for row in rows]), fields))
        order += [changes[index] for index in places]
    old, at = pa.concat_tables(parts), {change: index for index, change in enumerate(order)}
    for name, lacking in wanted.items():
        chosen = np.arange(values.num_rows)
        chosen[list(lacking)] = [values.num_rows + at[change] for change in lacking]
        both = pa.chunked_array([*values[name].chunks, *old[name].chunks])
        index = values.schema.get_field_index(name)
        values = values.set_column(index, values.schema.field(name), both.take(pa.array(chosen)))
    return values
