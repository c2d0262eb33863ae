"""What reading a table costs as it was left, against the same rows freshly compacted."""

import time
from collections.abc import Callable
from statistics import median

import duckdb
from pyiceberg.table import Table

from services.verify.quoting import literal, quote
from services.verify.settings import StackSettings
from tests.bench.reading import current_files, rows

TRIES = 5
PREFIX = "warehouse/bench-compacted"


def state_of(relation: str, key: tuple[str, ...], append_only: bool) -> str:
    """The newest row of each key, where every event is kept; else the rows as they are."""
    if not append_only:
        return relation
    by = ", ".join(map(quote, key))
    newest = f"row_number() OVER (PARTITION BY {by} ORDER BY _kafka_offset DESC) = 1"
    return f"(SELECT * FROM (SELECT * FROM {relation} QUALIFY {newest}) WHERE _op <> 'd')"


def scan_seconds(
    duck: duckdb.DuckDBPyConnection, table: Table, names: list[str], key: tuple[str, ...], append_only: bool
) -> float:
    """Median seconds to read these columns of all rows, delete files included."""
    wanted = [*names, *(("_op", "_kafka_offset") if append_only else ())]

    def once() -> None:
        files = current_files(table)
        _read(duck, state_of(rows(duck, table, files, wanted), key, append_only), names)

    return _median(once)


def compacted_seconds(
    duck: duckdb.DuckDBPyConnection, settings: StackSettings, relation: str, names: list[str]
) -> tuple[float, int]:
    """The same of the same rows as one compacted file on the same store; and its bytes."""
    path = f"s3://{settings.s3_bucket}/{PREFIX}/rows.parquet"
    outputs = ", ".join(map(quote, names))
    duck.execute(f"COPY (SELECT {outputs} FROM {relation}) TO {literal(path)} (FORMAT parquet, COMPRESSION zstd)")
    size = duck.execute(f"SELECT sum(total_compressed_size) FROM parquet_metadata({literal(path)})").fetchone()
    fresh = f"read_parquet([{literal(path)}])"
    return _median(lambda: _read(duck, fresh, names)), int(size[0] or 0) if size else 0


def _read(duck: duckdb.DuckDBPyConnection, relation: str, names: list[str]) -> None:
    # Every value is read, and none leaves DuckDB.
    sums = ", ".join(f"sum(hash({quote(name)}) % 1000)" for name in names)
    duck.execute(f"SELECT count(*), {sums} FROM {relation}").fetchall()


def _median(once: Callable[[], None]) -> float:
    seconds = []
    for _ in range(TRIES + 1):
        began = time.monotonic()
        once()
        seconds.append(time.monotonic() - began)
    # The first one warms caches for all alike.
    return median(seconds[1:])
