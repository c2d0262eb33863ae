"""What the source itself says of a table that a contract could promise."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

import psycopg

from services.errors import LakehouseError

_COLUMNS: LiteralString = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), coalesce(nullif(t.typbasetype, 0)::regtype::text, t.typname),
       t.typcategory, a.attnotnull, col_description(a.attrelid, a.attnum),
       ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder),
       EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indpred IS NULL
               AND i.indexprs IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum),
       coalesce((SELECT array_position(i.indkey::int2[], a.attnum) + 1 FROM pg_index i
                 WHERE i.indrelid = a.attrelid AND i.indisprimary), 0),
       a.attgenerated <> ''
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""

_TABLE: LiteralString = """
SELECT c.oid, obj_description(c.oid, 'pg_class') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')"""

_CHECKS: LiteralString = """
SELECT conname, pg_get_expr(conbin, conrelid) FROM pg_constraint
WHERE conrelid = %s AND contype = 'c' ORDER BY conname"""


class NoSuchTable(LakehouseError):
    """The source hasn't got the table."""


@dataclass(frozen=True)
class DescribedColumn:
    """``declared``: the type as PostgreSQL prints it; ``category``: PostgreSQL's letter for its kind; ``key``: the
    place in the primary key, from 1, or 0; ``labels``: of an enum.
    """

    name: str
    declared: str
    base: str
    category: str
    required: bool
    unique: bool
    key: int
    labels: tuple[str, ...] = ()
    comment: str | None = None
    generated: bool = False


@dataclass(frozen=True)
class DescribedTable:
    """``checks``: name to condition, as PostgreSQL prints it."""

    schema: str
    name: str
    columns: tuple[DescribedColumn, ...]
    comment: str | None
    checks: tuple[tuple[str, str], ...] = ()

    def column(self, name: str) -> DescribedColumn | None:
        """A column, if there is one of the name."""
        return next((column for column in self.columns if column.name == name), None)


def describe(connection: psycopg.Connection, table: Sequence[str]) -> DescribedTable:
    """The table (schema and name) as it is now. Raises NoSuchTable."""
    schema, name = table
    found = connection.execute(_TABLE, (schema, name)).fetchone()
    if found is None:
        raise NoSuchTable(f"the source has no table {schema}.{name}. `lakehouse table list` names those that it has.")
    oid, comment = found
    columns = tuple(
        DescribedColumn(column, declared, base, category, required, unique, key, tuple(labels), said, generated)
        for column, declared, base, category, required, said, labels, unique, key, generated
        in connection.execute(_COLUMNS, (oid,))
    )  # fmt: skip
    checks = tuple((check, condition) for check, condition in connection.execute(_CHECKS, (oid,)))
    return DescribedTable(schema, name, columns, comment, checks)
