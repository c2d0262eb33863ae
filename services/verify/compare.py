"""The comparison itself, in DuckDB: what doesn't fit its memory limit goes to disk."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from services.verify.columns import ComparedColumn
from services.verify.report import Difference
from services.verify.staging import LAKE, SOURCE

FOUND = "differences"


@dataclass
class Comparison:
    """Counts of rows by what is wrong with them, and the first few of each kind."""

    rows_source: int = 0
    rows_lake: int = 0
    differing: int = 0
    missing: int = 0
    extra: int = 0
    duplicates: int = 0
    examples: list[Difference] = field(default_factory=list)


def compare(
    connection: duckdb.DuckDBPyConnection, columns: Sequence[ComparedColumn], key: tuple[str, ...], examples: int
) -> Comparison:
    """Compare the relations SOURCE and LAKE, value by value; keyless tables as multisets."""
    result = Comparison(_count(connection, SOURCE), _count(connection, LAKE))
    if not columns:
        return result
    keys = [next(i for i, column in enumerate(columns) if column.name == name) for name in key]
    if keys:
        _compare_keyed(connection, columns, keys, result, examples)
    else:
        _compare_multisets(connection, columns, result, examples)
    connection.execute(f"DROP TABLE IF EXISTS {FOUND}")
    return result


def _compare_keyed(
    connection: duckdb.DuckDBPyConnection,
    columns: Sequence[ComparedColumn],
    keys: list[int],
    result: Comparison,
    examples: int,
) -> None:
    differs = [c.differs(f"s.c{i}", f"l.c{i}") for i, c in enumerate(columns) if i not in keys]
    on = " AND ".join(f"s.c{i} = l.c{i}" for i in keys)
    either = ", ".join(f"coalesce(s.c{i}, l.c{i}) AS c{i}" for i in keys)
    wrong = " OR ".join(["s.present IS NULL", "l.present IS NULL", "s.unfit IS NOT NULL", *differs])
    connection.execute(
        f"CREATE OR REPLACE TABLE {FOUND} AS SELECT {either}, CASE WHEN s.present IS NULL THEN 'extra'"
        f" WHEN l.present IS NULL THEN 'missing' ELSE 'differs' END AS kind"
        f" FROM (SELECT *, true AS present FROM {SOURCE}) s"
        f" FULL JOIN (SELECT *, true AS present FROM {LAKE}) l ON {on} WHERE {wrong}"
    )
    counts = dict(connection.execute(f"SELECT kind, count(*) FROM {FOUND} GROUP BY kind").fetchall())
    result.differing, result.missing, result.extra = (counts.get(kind, 0) for kind in ("differs", "missing", "extra"))
    # A key of the source is there once. If more rows of the lake met one than there are keys that met one, some repeat.
    if result.rows_lake - result.extra > result.rows_source - result.missing:
        _find_duplicates(connection, columns, keys, result, examples)
    if result.differing or result.missing or result.extra:
        result.examples += _examples(connection, columns, keys, examples)


def _find_duplicates(
    connection: duckdb.DuckDBPyConnection,
    columns: Sequence[ComparedColumn],
    keys: list[int],
    result: Comparison,
    examples: int,
) -> None:
    names = ", ".join(f"c{i}" for i in keys)
    repeated = f"SELECT {names}, count(*) AS n FROM {LAKE} GROUP BY {names} HAVING count(*) > 1"
    row = connection.execute(f"SELECT coalesce(sum(n - 1), 0) FROM ({repeated})").fetchone()
    result.duplicates = int(row[0]) if row else 0
    shown = ", ".join(_shown(f"c{i}", columns[i]) for i in keys)
    for *key, count in connection.execute(
        f"SELECT {shown}, n FROM ({repeated}) ORDER BY {names} LIMIT {examples:d}"
    ).fetchall():
        named = {columns[i].name: value for i, value in zip(keys, key, strict=True)}
        result.examples.append(Difference("duplicate", named, count=count))


def _examples(
    connection: duckdb.DuckDBPyConnection, columns: Sequence[ComparedColumn], keys: list[int], examples: int
) -> list[Difference]:
    names = ", ".join(f"c{i}" for i in keys)
    connection.execute(
        f"CREATE OR REPLACE TABLE first_found AS SELECT * FROM {FOUND}"
        f" QUALIFY row_number() OVER (PARTITION BY kind ORDER BY {names}) <= {examples:d}"
    )
    shown = [_shown(f"d.c{i}", columns[i]) for i in keys]
    pairs = [
        expression
        for i, column in enumerate(columns)
        for expression in (column.differs(f"s.c{i}", f"l.c{i}"), _shown(f"s.c{i}", column), _shown(f"l.c{i}", column))
    ]
    order = ", ".join(f"d.c{i}" for i in keys)
    using = [" AND ".join(f"d.c{i} = {side}.c{i}" for i in keys) for side in ("s", "l")]
    rows = connection.execute(
        f"SELECT d.kind, {', '.join([*shown, 's.unfit', *pairs])} FROM first_found d"
        f" LEFT JOIN {SOURCE} s ON {using[0]} LEFT JOIN {LAKE} l ON {using[1]} ORDER BY d.kind, {order}"
    ).fetchall()
    return [_difference(row, columns, keys) for row in rows]


def _difference(row: tuple[Any, ...], columns: Sequence[ComparedColumn], keys: list[int]) -> Difference:
    kind, rest = row[0], row[1:]
    key = {columns[i].name: value for i, value in zip(keys, rest, strict=False)}
    unfit, flat = rest[len(keys)], rest[len(keys) + 1 :]
    values: dict[str, tuple[str | None, str | None]] = {}
    if kind == "differs":
        for i, column in enumerate(columns):
            different, source, lake = flat[3 * i : 3 * i + 3]
            if different:
                values[column.name] = (source, lake)
        if unfit:
            values["(beyond the lake's type)"] = (unfit, None)
    return Difference(kind, key, values)


def _compare_multisets(
    connection: duckdb.DuckDBPyConnection, columns: Sequence[ComparedColumn], result: Comparison, examples: int
) -> None:
    grouped = ", ".join(f"{column.grouped(f'c{i}')} AS c{i}" for i, column in enumerate(columns))
    names = ", ".join(f"c{i}" for i in range(len(columns)))
    connection.execute(
        f"CREATE OR REPLACE TABLE {FOUND} AS SELECT {names}, unfit, sum(n)::BIGINT AS n FROM"
        f" (SELECT {grouped}, unfit, 1 AS n FROM {SOURCE} UNION ALL SELECT {grouped}, NULL, -1 FROM {LAKE})"
        f" GROUP BY ALL HAVING sum(n) <> 0"
    )
    row = connection.execute(f"SELECT sum(n) FILTER (n > 0), -sum(n) FILTER (n < 0) FROM {FOUND}").fetchone()
    result.missing, result.extra = (int(value or 0) for value in row or (0, 0))
    shown = ", ".join(_shown(f"c{i}", column) for i, column in enumerate(columns))
    for sign, kind in ((">", "missing"), ("<", "extra")):
        for *values, count in connection.execute(
            f"SELECT {shown}, abs(n) FROM {FOUND} WHERE n {sign} 0 ORDER BY ALL LIMIT {examples:d}"
        ).fetchall():
            named = {column.name: value for column, value in zip(columns, values, strict=True)}
            result.examples.append(Difference("missing" if kind == "missing" else "extra", named, count=count))


def _shown(value: str, column: ComparedColumn) -> str:
    return f"'\\x' || lower(hex({value}))" if column.kind == "BLOB" else f"CAST({value} AS VARCHAR)"


def _count(connection: duckdb.DuckDBPyConnection, relation: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {relation}").fetchone()
    return int(row[0]) if row else 0
