"""Both sides as relations of one DuckDB: the source's rows in a table, the lake's rows with the tail laid over them.

Columns are called ``c0, c1, …`` in the order of the plan, so that no name of a table can clash with one of ours.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from services.stack.duckdb_sql import literal
from services.stack.errors import CannotVerify
from services.stack.lake import PinnedTable
from services.stack.lake_files import pinned_rows
from services.verify.arrow_types import arrow_type
from services.verify.columns import ComparedColumn
from services.verify.overlay import Key, Last, Overlay
from services.verify.ranges import EVERY_ROW, LakeRange

SOURCE, LAKE, TAIL = "source_rows", "lake_rows", "tail_rows"


def stage_source(
    connection: duckdb.DuckDBPyConnection,
    columns: Sequence[ComparedColumn],
    batches: Iterator[pa.RecordBatch],
    on_rows: Callable[[int], None],
) -> int:
    """Stream batches of canonical text into the table SOURCE with exact types; the number of rows.

    Its last column, ``unfit``, holds what the types can't: column and text, or null.
    """
    definitions = [f"c{i} {column.kind}" for i, column in enumerate(columns)]
    connection.execute(f"CREATE OR REPLACE TABLE {SOURCE} ({', '.join([*definitions, 'unfit VARCHAR'])})")
    rows = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in batches:
            yield batch
            rows += batch.num_rows
            on_rows(rows)

    schema = pa.schema([(f"c{i}", pa.string()) for i in range(len(columns))])
    incoming = pa.RecordBatchReader.from_batches(schema, counted())
    connection.register("incoming", incoming)
    try:
        connection.execute(f"INSERT INTO {SOURCE} SELECT {parsed_values(columns)} FROM incoming")
    finally:
        connection.unregister("incoming")
    return rows


def parsed_values(columns: Sequence[ComparedColumn]) -> str:
    """Return DuckDB's expressions for the values of the canonical texts ``c0, c1, …``, and for ``unfit``."""
    parsed = [f"{column.parsed(f'c{i}')} AS c{i}" for i, column in enumerate(columns)]
    unfit = [
        f"CASE WHEN c{i} IS NOT NULL AND {condition} THEN {literal(column.name + ' = ')} || {column.named(f'c{i}')} END"
        for i, column in enumerate(columns)
        if (condition := column.unfit(f"c{i}"))
    ]
    unfit_sql = f"nullif(concat_ws(', ', {', '.join(unfit)}), '')" if unfit else "NULL"
    return ", ".join([*parsed, f"{unfit_sql} AS unfit"])


def stage_lake(
    connection: duckdb.DuckDBPyConnection,
    columns: Sequence[ComparedColumn],
    pinned: PinnedTable,
    overlay: Overlay,
    within: LakeRange = EVERY_ROW,
    *,
    with_removed: bool = False,
) -> None:
    """Make the view LAKE: the rows ``within`` a range of the pinned snapshot with the overlay applied.

    ``with_removed``: of a table without a key, rows that the tail removes are there, and in TAIL too, marked ``gone``.
    """
    kept = frozenset[str]().union(*(state.kept for state in overlay.keyed.values()))
    # The row that has a kept value may be of another key, outside the range.
    files = EVERY_ROW.files if kept else within.files
    base = pinned_rows(connection, pinned, [column.name for column in columns], files)
    stored = ", ".join([*(f"{column.stored(f'c{i}')} AS c{i}" for i, column in enumerate(columns)), "lsn"])
    base = f"(SELECT {stored} FROM {base})"
    outputs, tail = (", ".join(f"{side}.c{i}" for i in range(len(columns))) for side in ("b", "t"))
    standing = "true" if overlay.truncated_at is None else f"(b.lsn IS NULL OR b.lsn >= {overlay.truncated_at:d})"
    if not pinned.key:
        added, removed = overlay.standing(overlay.added), overlay.standing(overlay.removed)
        _stage_tail(connection, columns, [], [*map(_TailRow, added), *(_TailRow(row, gone=True) for row in removed)])
        rows = f"SELECT {outputs} FROM {base} b WHERE {standing} UNION ALL SELECT {tail} FROM {TAIL} t WHERE NOT t.gone"
        if removed and not with_removed:
            rows = _without_removed(columns, rows)
        connection.execute(_view(rows, within))
        return
    keys = [i for i, column in enumerate(columns) if column.name in pinned.key]
    _stage_tail(connection, columns, keys, [_tail_row(pinned.key, *item) for item in overlay.keyed.items()])
    own = " AND ".join(f"b.c{i} = t.c{i}" for i in keys)
    origin = " AND ".join(f"b.c{i} = t.base{i}" for i in keys)
    values = ", ".join(_kept_or_new(i, column.name in kept, column.name) for i, column in enumerate(columns))
    joined = f"LEFT JOIN {base} b ON {origin}" if kept else ""
    connection.execute(
        _view(
            f"SELECT {outputs} FROM {base} b WHERE {standing} AND NOT EXISTS (SELECT 1 FROM {TAIL} t WHERE {own})"
            f" UNION ALL SELECT {values} FROM {TAIL} t {joined} WHERE NOT t.gone",
            within,
        )
    )


def _without_removed(columns: Sequence[ComparedColumn], rows: str) -> str:
    """``rows`` without as many of equal ones as TAIL says are gone. A removed row that isn't there changes nothing."""
    names = ", ".join(f"c{i}" for i in range(len(columns)))
    values = [f"{column.grouped(f'c{i}')} AS v{i}" for i, column in enumerate(columns)]
    equal = ", ".join(f"v{i}" for i in range(len(columns)))
    same = " AND ".join(f"g.v{i} IS NOT DISTINCT FROM r.v{i}" for i in range(len(columns)))
    return (
        f"WITH given AS (SELECT *, {', '.join(values)} FROM ({rows})),"
        f" numbered AS (SELECT *, row_number() OVER (PARTITION BY {equal}) AS n FROM given),"
        f" gone AS (SELECT {', '.join(values)}, count(*) AS n FROM {TAIL} WHERE gone GROUP BY {equal})"
        f" SELECT {names} FROM numbered g WHERE NOT EXISTS (SELECT 1 FROM gone r WHERE {same} AND g.n <= r.n)"
    )


@dataclass(frozen=True)
class _TailRow:
    """A row of TAIL. ``base``: the key of the snapshot's row that has the values of the columns ``kept``."""

    row: Mapping[str, Any]
    kept: frozenset[str] = frozenset()
    gone: bool = False
    base: Mapping[str, Any] = field(default_factory=dict)


def _tail_row(names: tuple[str, ...], key: Key, last: Last) -> _TailRow:
    base = dict(zip(names, last.base, strict=True)) if last.base is not None else {}
    if last.row is None:
        return _TailRow(dict(zip(names, key, strict=True)), gone=True)
    return _TailRow(last.row, last.kept, False, base)


def _view(query: str, within: LakeRange) -> str:
    return f"CREATE OR REPLACE TEMP VIEW {LAKE} AS SELECT * FROM ({query}) WHERE {within.rows}"


def _kept_or_new(index: int, may_be_kept: bool, name: str) -> str:
    if not may_be_kept:
        return f"t.c{index}"
    return f"CASE WHEN list_contains(t.kept, {literal(name)}) THEN b.c{index} ELSE t.c{index} END"


def _stage_tail(
    connection: duckdb.DuckDBPyConnection,
    columns: Sequence[ComparedColumn],
    keys: Sequence[int],
    rows: Sequence[_TailRow],
) -> None:
    """Fill the table TAIL: neutral values with the lake's types, ``base`` key, ``kept`` names, and ``gone``."""
    kinds = [(f"c{i}", column.lake_kind, column.name) for i, column in enumerate(columns)]
    bases = [(f"base{i}", columns[i].lake_kind, columns[i].name) for i in keys]
    definitions = ", ".join(f"{alias} {kind}" for alias, kind, _ in [*kinds, *bases])
    connection.execute(f"CREATE OR REPLACE TABLE {TAIL} ({definitions}, kept VARCHAR[], gone BOOLEAN)")
    if not rows:
        return
    arrays = [_array(c.name, [row.row.get(c.name) for row in rows], c.tail_kind) for c in columns]
    arrays += [_array(name, [row.base.get(name) for row in rows], kind) for _, kind, name in bases]
    arrays += [
        pa.array([sorted(row.kept) for row in rows], pa.list_(pa.string())),
        pa.array([row.gone for row in rows]),
    ]
    names = [*(alias for alias, _, _ in [*kinds, *bases]), "kept", "gone"]
    connection.register("incoming", pa.Table.from_arrays(arrays, names))
    try:
        # What a type can't hold (NaN in a numeric) the lake hasn't got either: its record is a dead letter.
        values = [column.arrived(f"c{i}") for i, column in enumerate(columns)]
        values += [f"TRY_CAST({alias} AS {kind})" for alias, kind, _ in bases]
        connection.execute(f"INSERT INTO {TAIL} SELECT {', '.join(values)}, kept, gone FROM incoming")
    finally:
        connection.unregister("incoming")


def _array(name: str, values: Sequence[Any], kind: str) -> pa.Array:
    try:
        return pa.array(values, arrow_type(kind))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        # Arrow's own message has the value.
        raise CannotVerify(
            f"values of {name} on the topic don't fit {kind}, which the lake has it as: its type has changed. Run"
            " verify again once the mirror has followed (`lakehouse wait`)."
        ) from None
