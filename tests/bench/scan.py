"""What reading a table costs as it was left, against the same rows freshly compacted."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

import duckdb
from pyarrow.parquet import read_schema
from pyiceberg.catalog import Catalog
from pyiceberg.io import load_file_io
from pyiceberg.table import Table

from services.stack.duckdb_sql import literal, quote
from services.stack.endpoints import StackSettings
from tests.bench.lake import drop
from tests.bench.reading import current_files, rows

TRIES = 5
# Of the table that is as fresh as one can be.
NAMESPACE = "bench_compacted"


def state_of(relation: str, key: tuple[str, ...], append_only: bool) -> str:
    """The newest row of each key, where every event is kept; else the rows as they are."""
    if not append_only:
        return relation
    by = ", ".join(map(quote, key))
    newest = f"row_number() OVER (PARTITION BY {by} ORDER BY _kafka_offset DESC) = 1"
    return f"(SELECT * FROM (SELECT * FROM {relation} QUALIFY {newest}) WHERE _op <> 'd')"


def scan_seconds(
    duck: duckdb.DuckDBPyConnection, catalog: Catalog, settings: StackSettings, table: Table, names: list[str],
    key: tuple[str, ...], append_only: bool,
) -> tuple[float, float]:  # fmt: skip
    """Median seconds to read these columns of all rows as they were left, delete files included; and of the same rows
    in a table of one freshly written file on the same store. They take turns, since what else runs slows either.
    """
    wanted = [*names, *(("_op", "_kafka_offset") if append_only else ())]

    def state() -> str:
        return state_of(rows(duck, table, current_files(table), wanted), key, append_only)

    with _freshly_written(duck, catalog, settings, state(), names) as fresh:
        turns = [
            (_timed(lambda: _read(duck, state(), names)),
             _timed(lambda: _read(duck, rows(duck, fresh, current_files(fresh), names), names)))
            for _ in range(TRIES + 1)
        ]  # fmt: skip
    # The first one warms caches for both alike.
    left, compacted = zip(*turns[1:], strict=True)
    return median(left), median(compacted)


@contextmanager
def _freshly_written(
    duck: duckdb.DuckDBPyConnection, catalog: Catalog, settings: StackSettings, relation: str, names: list[str]
) -> Iterator[Table]:
    path, name = f"s3://{settings.s3_bucket}/warehouse/{NAMESPACE}/rows.parquet", (NAMESPACE, "rows")
    outputs = ", ".join(map(quote, names))
    duck.execute(f"COPY (SELECT {outputs} FROM {relation}) TO {literal(path)} (FORMAT parquet, COMPRESSION zstd)")
    with load_file_io(catalog.properties, path).new_input(path).open() as stream:
        schema = read_schema(stream)
    catalog.create_namespace_if_not_exists(NAMESPACE)
    table = catalog.create_table(name, schema)
    try:
        table.add_files([path])
        yield table
    finally:
        drop(catalog, [NAMESPACE])


def _read(duck: duckdb.DuckDBPyConnection, relation: str, names: list[str]) -> None:
    # Every value is read, and none leaves DuckDB.
    sums = ", ".join(f"sum(hash({quote(name)}) % 1000)" for name in names)
    duck.execute(f"SELECT count(*), {sums} FROM {relation}").fetchall()


def _timed(once: Callable[[], None]) -> float:
    began = time.monotonic()
    once()
    return time.monotonic() - began
