"""Whether a system's table equals its source, row by row. Both sides are brought into one form for each kind of column.

Peers hold some values as they arrive (an instant as text, a day as a number): that alone is no difference.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from services.stack.duckdb_sql import literal, quote

COLUMNS = """
SELECT a.attname, t.typname, t.typcategory FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum"""
EXAMPLES = 3
_KINDS = {
    "int2": "whole", "int4": "whole", "int8": "whole", "float4": "single", "float8": "double", "bool": "truth",
    "date": "day", "timestamp": "instant", "timestamptz": "instant", "bytea": "bytes",
}  # fmt: skip
# Kind to the expression in PostgreSQL and the type in DuckDB.
_SOURCE = {
    "whole": ("{}", "BIGINT"), "single": ("{}", "FLOAT"), "double": ("{}", "DOUBLE"), "truth": ("{}", "BOOLEAN"),
    "day": ("({} - date '1970-01-01')", "BIGINT"), "bytes": ("encode({}, 'hex')", "VARCHAR"),
    "instant": ("(extract(epoch FROM {}) * 1000000)::bigint", "BIGINT"), "list": ("array_to_json({})", "VARCHAR"),
    "text": ("{}::text", "VARCHAR"),
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column of the source and its kind."""

    name: str
    kind: str

    def of_the_lake(self, given: str) -> str:
        """The expression in DuckDB for a column of the type ``given``."""
        name = quote(self.name)
        match self.kind:
            case "day" if given == "DATE":
                return f"({name} - DATE '1970-01-01')::BIGINT"
            case "instant" if given.startswith("TIMESTAMP"):
                return f"epoch_us({name})"
            case "instant" if given == "VARCHAR":
                return f"epoch_us({name}::TIMESTAMPTZ)"
            case "bytes":
                return f"lower(hex({name}))"
            case "list":
                return f"to_json({name})::VARCHAR"
        return f"{name}::{_SOURCE[self.kind][1]}"


@dataclass(frozen=True)
class Comparison:
    """``differing``: rows by column that differ; ``twice``: rows of a key that is there already."""

    rows: int
    missing: int
    extra: int
    twice: int
    differing: dict[str, int]
    examples: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Whether there is no difference."""
        return not (self.missing or self.extra or self.twice or self.differing)

    @property
    def equal_but_for_deletes(self) -> bool:
        """Whether it only has rows that the source had once."""
        return not (self.missing or self.twice or self.differing)

    def __str__(self) -> str:
        found = {"missing": self.missing, "that the source lacks": self.extra, "there twice": self.twice}
        said = [f"{count:,} rows {what}" for what, count in found.items() if count]
        said += [f"{count:,} rows differ in {name}" for name, count in self.differing.items()]
        return "; ".join([*said, *(f"such as {example}" for example in self.examples[:1])]) or "equal"


def columns(source: psycopg.Connection[Any], schema: str, table: str) -> list[Column]:
    """The columns of a source table that its log has."""
    found = source.execute(COLUMNS, (f'"{schema}"."{table}"',)).fetchall()
    return [Column(name, "list" if category == "A" else _KINDS.get(kind, "text")) for name, kind, category in found]


def stage_source(
    source: psycopg.Connection[Any], duck: duckdb.DuckDBPyConnection, schema: str, table: str, folder: Path
) -> list[Column]:
    """The table ``source_rows``; its columns."""
    found = columns(source, schema, table)
    outputs = ", ".join(_SOURCE[column.kind][0].format(quote(column.name)) for column in found)
    path = folder / "source.csv"
    query = f'COPY (SELECT {outputs} FROM "{schema}"."{table}") TO STDOUT (FORMAT csv)'
    with path.open("wb") as file, source.cursor().copy(query.encode()) as copy:
        for data in copy:
            file.write(data)
    types = ", ".join(f"{literal(column.name)}: {literal(_SOURCE[column.kind][1])}" for column in found)
    duck.execute("DROP TABLE IF EXISTS source_rows")
    duck.execute(
        f"CREATE TABLE source_rows AS SELECT * FROM read_csv({literal(str(path))}, header = false, auto_detect = false,"
        f" delim = ',', quote = '\"', escape = '\"', nullstr = '', allow_quoted_nulls = false, parallel = false,"
        f" max_line_size = 16777216, columns = {{{types}}})"
    )
    path.unlink()
    return found


def compare(
    duck: duckdb.DuckDBPyConnection, found: list[Column], key: tuple[str, ...], lake: str, placeholder: str | None
) -> Comparison:
    """``source_rows`` with the rows of the table expression ``lake``.

    ``placeholder``: what stands for an unchanged value that wasn't in the log. To a system that keeps every event as it
    came it is no difference; None: it is.
    """
    types = {row[0]: row[1] for row in duck.execute(f"DESCRIBE SELECT * FROM {lake}").fetchall()}
    lacking = [column.name for column in found if column.name not in types]
    outputs = ", ".join(f"{c.of_the_lake(types[c.name])} AS {quote(c.name)}" for c in found if c.name in types)
    duck.execute("DROP TABLE IF EXISTS lake_rows")
    duck.execute(f"CREATE TABLE lake_rows AS SELECT {outputs} FROM {lake}")
    same = " AND ".join(f"s.{quote(name)} = l.{quote(name)}" for name in key)
    first = quote(key[0])
    tests = {c.name: _differs(c, placeholder) for c in found if c.name not in key and c.name not in lacking}
    both = f"s.{first} IS NOT NULL AND l.{first} IS NOT NULL"
    counts = [f"count(*) FILTER ({both} AND {test})" for test in tests.values()]
    joined = f"FROM source_rows s FULL JOIN lake_rows l ON {same}"
    answer: Any = duck.execute(
        f"SELECT {', '.join([f'count(*) FILTER (l.{first} IS NULL)', f'count(*) FILTER (s.{first} IS NULL)', *counts])}"
        f" {joined}"
    ).fetchone()
    twice: Any = duck.execute(
        f"SELECT count(*) - count(DISTINCT ({', '.join(map(quote, key))})) FROM lake_rows"
    ).fetchone()
    rows: Any = duck.execute("SELECT count(*) FROM source_rows").fetchone()
    differing = dict(zip(tests, answer[2:], strict=True)) | dict.fromkeys(lacking, rows[0])
    condition = " OR ".join(f"({test})" for test in tests.values()) or "false"
    keys = ", ".join(f"coalesce(s.{quote(name)}, l.{quote(name)})" for name in key)
    wrong = duck.execute(
        f"SELECT {keys} {joined} WHERE l.{first} IS NULL OR s.{first} IS NULL OR {condition} LIMIT {EXAMPLES}"
    ).fetchall()
    return Comparison(
        rows=rows[0], missing=answer[0], extra=answer[1], twice=twice[0],
        differing={name: count for name, count in differing.items() if count},
        examples=tuple(", ".join(f"{n} {v}" for n, v in zip(key, row, strict=True)) for row in wrong),
    )  # fmt: skip


def _differs(column: Column, placeholder: str | None) -> str:
    name = quote(column.name)
    differs = f"s.{name} IS DISTINCT FROM l.{name}"
    if placeholder is None or column.kind not in ("text", "bytes", "list"):
        return differs
    stands = {
        "text": literal(placeholder),
        "bytes": literal(placeholder.encode().hex()),
        "list": literal(f'["{placeholder}"]'),
    }
    return f"({differs} AND l.{name} IS DISTINCT FROM {stands[column.kind]})"
