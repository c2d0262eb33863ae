"""What PostgreSQL's catalog says of a table that a contract could promise."""

import psycopg

from pipelines.sources.base.tables import DescribedColumn, DescribedTable

# PostgreSQL's category of a type to the contract standard's logical type; what isn't here is text in the lake.
_LOGICAL = {"A": "array", "B": "boolean", "S": "string", "E": "string", "T": "string", "D": "timestamp", "N": "number"}
_BY_NAME = {"date": "date", "time": "time", "timetz": "time", "int2": "integer", "int4": "integer", "int8": "integer",
            "smallint": "integer", "integer": "integer", "bigint": "integer"}  # fmt: skip

_COLUMNS = """
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

_TABLE = """
SELECT c.oid, obj_description(c.oid, 'pg_class') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')"""

_CHECKS = """
SELECT conname, pg_get_expr(conbin, conrelid) FROM pg_constraint
WHERE conrelid = %s AND contype = 'c' ORDER BY conname"""


def describe(connection: psycopg.Connection, schema: str, name: str) -> DescribedTable | None:
    """Return the table as it is now; None: there is no such table."""
    found = connection.execute(_TABLE, (schema, name)).fetchone()
    if found is None:
        return None
    oid, comment = found
    columns = tuple(
        DescribedColumn(
            column, declared, logical_type(declared, base, category), required, unique, key, tuple(labels), said,
            generated,
        )
        for column, declared, base, category, required, said, labels, unique, key, generated
        in connection.execute(_COLUMNS, (oid,))
    )  # fmt: skip
    checks = tuple((check, condition) for check, condition in connection.execute(_CHECKS, (oid,)))
    return DescribedTable(schema, name, columns, comment, checks)


def logical_type(declared: str, base: str, category: str) -> str:
    """Return the contract standard's name for the values of a type, by its texts and PostgreSQL's category."""
    return _BY_NAME.get(base) or _BY_NAME.get(declared) or _LOGICAL.get(category, "string")
