"""What must hold of a lake besides equality with its source, from tables' histories: O3, O5 and O6 of the corpus.

Each snapshot, manifest and file is read once, by the first check that meets it, so that a check after each test costs
what is new.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pyarrow.fs as fs
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFileContent, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from pipelines.dead_letters.store import DEAD_LETTER_TOPIC as LETTERS_TOPIC
from pipelines.kafka.client import read_range
from pipelines.lake.properties import SCHEMA_HISTORY
from services.stack.duckdb_session import open_duckdb
from services.stack.duckdb_sql import literal
from services.stack.endpoints import StackSettings
from services.stack.lake import LSN_COLUMN, PinnedTable, dead_letters, lineage, open_catalog, pin, tables
from services.stack.lake_files import duckdb_type, pinned_rows
from services.stack.offsets import kafka

PLACE = ("_kafka_partition", "_kafka_offset")
VERSIONS = (
    "CREATE TABLE versions (tbl VARCHAR, key VARCHAR, seq BIGINT, part INT, off BIGINT, lsn BIGINT, op VARCHAR,"
    " file VARCHAR, pos BIGINT)"
)
# A position that was deleted, or with a null position a file that was taken out, in the snapshot of this number.
GONE = "CREATE TABLE gone (tbl VARCHAR, file VARCHAR, pos BIGINT, seq BIGINT)"
# A row's states in the order in which snapshots showed them; two of one key must follow each other without a gap.
STATES = """
WITH removed AS (SELECT file, pos, min(seq) AS seq FROM gone WHERE tbl = $tbl GROUP BY ALL),
lives AS (
    SELECT v.*, least(r.seq, w.seq) AS until FROM versions v
    LEFT JOIN removed r ON r.file = v.file AND r.pos = v.pos LEFT JOIN removed w ON w.file = v.file AND w.pos IS NULL
    WHERE v.tbl = $tbl),
pairs AS (SELECT *, lead(COLUMNS(['seq', 'part', 'off', 'lsn', 'op'])) OVER (PARTITION BY key ORDER BY seq)
    AS 'next_\\0' FROM lives)
SELECT key, seq, next_seq, CASE
    WHEN until IS NULL OR until > next_seq THEN 'is there twice'
    WHEN next_part = part AND next_off < off THEN 'goes back to an older offset'
    WHEN next_lsn < lsn AND op <> 'r' AND next_op <> 'r' THEN 'goes back to an older log position'
    WHEN next_part = part AND next_off = off AND until < next_seq THEN 'comes back after its delete'
    END AS problem
FROM pairs WHERE next_seq IS NOT NULL AND problem IS NOT NULL LIMIT 10
"""


class Oracles:
    """The checks of one stack's lake, and what they have read so far."""

    def __init__(self, settings: StackSettings) -> None:
        self._settings, self._catalog = settings, open_catalog(settings)
        self._folder = TemporaryDirectory(prefix="oracles-")
        self._duckdb = open_duckdb(settings, Path(self._folder.name), "512MB")
        self._duckdb.execute(VERSIONS)
        self._duckdb.execute(GONE)
        self._seen: dict[str, int] = {}
        self._compared: dict[str, int | None] = {}
        self._entries: dict[str, list[ManifestEntry]] = {}
        self._letters: set[tuple[str, int, int]] = set()
        self._letters_read = 0

    def problems(self, *names: str) -> list[str]:
        """What doesn't hold, of the tables that are named or of all; empty if everything does."""
        found = self._letters_only_in_the_table()
        for table in tables(self._catalog, self._settings):
            pinned = pin(table)
            if pinned is None or (
                names and not {pinned.source_table, f"{pinned.schema}.{pinned.source_table}"} & {*names}
            ):
                continue
            checks = (self._states(table, pinned), self._missing_files(table), self._engines(table, pinned))
            found += [f"{pinned.full_name}: {problem}" for check in checks for problem in check]
        return found

    def _states(self, table: Table, pinned: PinnedTable) -> Iterator[str]:
        """O3: no key goes back to an older state, comes back, or is there twice, in any snapshot."""
        name = f"{table.metadata.table_uuid} by {', '.join(pinned.key)}"
        snapshots = list(lineage(table))[::-1]
        known = [snapshot.snapshot_id for snapshot in snapshots]
        if self._seen.get(name) in known:
            fresh = snapshots[known.index(self._seen[name]) + 1 :]
        else:
            for relation in ("versions", "gone"):
                self._duckdb.execute(f"DELETE FROM {relation} WHERE tbl = ?", [name])
            # What went before a change of the key had another one.
            fresh = snapshots[-1:] if '"rekey ' in table.properties.get(SCHEMA_HISTORY, "") else snapshots
        for snapshot in fresh:
            self._take(table, pinned, name, snapshot)
            self._seen[name] = snapshot.snapshot_id
        if fresh and pinned.key:
            for key, seq, following, problem in self._duckdb.execute(STATES, {"tbl": name}).fetchall():
                yield f"key {key} {problem}, between its snapshots number {seq} and {following}"

    def _take(self, table: Table, pinned: PinnedTable, name: str, snapshot: Snapshot) -> None:
        seq = snapshot.sequence_number or 0
        mine = [
            entry
            for manifest in snapshot.manifests(table.io)
            for entry in self._read(manifest, table.io)
            if entry.snapshot_id == snapshot.snapshot_id
        ]
        files: dict[tuple[DataFileContent, bool], list[str]] = {}
        for entry in mine:
            if entry.status != ManifestEntryStatus.EXISTING:
                added = entry.status == ManifestEntryStatus.ADDED
                files.setdefault((entry.data_file.content, added), []).append(entry.data_file.file_path)
        if not pinned.key:
            return
        for path in files.get((DataFileContent.DATA, False), []):
            self._duckdb.execute("INSERT INTO gone VALUES (?, ?, NULL, ?)", [name, path, seq])
        if deletes := files.get((DataFileContent.POSITION_DELETES, True)):
            listed = ", ".join(map(literal, deletes))
            self._duckdb.execute(
                f"INSERT INTO gone SELECT ?, file_path, pos, ? FROM read_parquet([{listed}])", [name, seq]
            )
        if data := files.get((DataFileContent.DATA, True)):
            key = ", ".join(f"k{i}" for i in range(len(pinned.key)))
            self._duckdb.execute(
                f"INSERT INTO versions SELECT ?, concat_ws(' ', {key}), ?, part, off, lsn, op, filename,"
                f" file_row_number FROM {_rows(table, pinned, data)}",
                [name, seq],
            )

    def _read(self, manifest: ManifestFile, io: FileIO) -> list[ManifestEntry]:
        path = manifest.manifest_path
        if path not in self._entries:
            self._entries[path] = manifest.fetch_manifest_entry(io, discard_deleted=False)
        return self._entries[path]

    def _missing_files(self, table: Table) -> Iterator[str]:
        """O5: every file that live metadata refers to exists."""
        wanted = {table.metadata_location}
        for snapshot in table.snapshots():
            wanted.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                wanted.add(manifest.manifest_path)
                entries = self._read(manifest, table.io)
                wanted |= {e.data_file.file_path for e in entries if e.status != ManifestEntryStatus.DELETED}
        assert isinstance(table.io, PyArrowFileIO)
        scheme, _, path = table.location().partition("://")
        bucket = path.partition("/")[0]
        listed = table.io.fs_by_scheme(scheme, bucket).get_file_info(fs.FileSelector(path, recursive=True))
        for file in sorted(wanted - {f"{scheme}://{info.path}" for info in listed}):
            yield f"{file} is referred to and doesn't exist"

    def _engines(self, table: Table, pinned: PinnedTable) -> Iterator[str]:
        """O5: PyIceberg reads the rows that DuckDB reads, which `verify` has compared with the source."""
        uuid = str(table.metadata.table_uuid)
        if pinned.snapshot_id is None or self._compared.get(uuid) == pinned.snapshot_id:
            return
        rows = table.scan(snapshot_id=pinned.snapshot_id, selected_fields=(*PLACE, LSN_COLUMN)).to_arrow()
        self._duckdb.register("rows_of_pyiceberg", rows)
        theirs = self._sums(f"SELECT hash({', '.join((*PLACE, LSN_COLUMN))}) AS h FROM rows_of_pyiceberg")
        ours = self._sums(f"SELECT hash(c0, c1, lsn) AS h FROM {pinned_rows(self._duckdb, pinned, PLACE)}")
        if theirs != ours:
            yield f"PyIceberg reads {theirs[0]} rows, DuckDB {ours[0]}, and they aren't the same"
        self._compared[uuid] = pinned.snapshot_id

    def _sums(self, query: str) -> tuple[int, int]:
        row = self._duckdb.execute(f"SELECT count(*), coalesce(sum(h), 0) FROM ({query})").fetchone()
        assert row is not None
        return row[0], row[1]

    def _letters_only_in_the_table(self) -> list[str]:
        """O6: each dead letter of the table is in the topic, for those who listen there."""
        table = dead_letters(self._catalog)
        if table is None:
            return []
        end = kafka(self._settings).ends([(LETTERS_TOPIC, 0)])[LETTERS_TOPIC, 0]
        span = {0: (self._letters_read, end)}
        for record in read_range(self._settings.kafka_bootstrap, LETTERS_TOPIC, span):
            headers = cast("list[tuple[str, bytes]]", record.headers() or [])
            said = {name: value.decode() for name, value in headers if name.startswith("lakehouse.")}
            self._letters.add(
                (said["lakehouse.topic"], int(said["lakehouse.partition"]), int(said["lakehouse.offset"]))
            )
        self._letters_read = end
        kept = table.scan(selected_fields=("topic", "partition", "offset")).to_arrow().to_pylist()
        lost = {(row["topic"], row["partition"], row["offset"]) for row in kept} - self._letters
        twice = len(kept) - len({tuple(row.values()) for row in kept})
        problems = [f"the dead letter of {topic}, partition {p}, offset {o} isn't in {LETTERS_TOPIC}" for topic, p, o in
                    sorted(lost)]  # fmt: skip
        return [*problems, *([f"{twice} dead letters are in their table twice"] if twice else [])]


def _rows(table: Table, pinned: PinnedTable, files: list[str]) -> str:
    fields = [(f"k{i}", name) for i, name in enumerate(pinned.key)]
    fields += [("part", "_kafka_partition"), ("off", "_kafka_offset"), ("lsn", "_lsn"), ("op", "_op")]
    kinds = {field.name: field for field in table.schema().fields}
    columns = ((alias, kinds[name].field_id, duckdb_type(kinds[name].field_type)) for alias, name in fields)
    schema = ", ".join(f"{i}: {{name: '{alias}', type: '{kind}', default_value: NULL}}" for alias, i, kind in columns)
    listed = ", ".join(map(literal, files))
    return f"read_parquet([{listed}], schema = MAP {{{schema}}}, filename = true, file_row_number = true)"
