"""The tables that a publication carries, with their columns and keys.

They are read from the catalog in three statements, however many there are, and without a lock on any.
"""

from collections import defaultdict
from dataclasses import replace

import psycopg

from pipelines.sources.base.tables import SourceTable, TableColumn
from pipelines.sources.postgres.exclusions import exclusions
from pipelines.sources.postgres.keys import MISLEADS
from pipelines.sources.postgres.types import why_left_out

# Whatever isn't here is text: as PostgreSQL prints it, or as it is rendered.
DUCKDB_TYPES = {
    "int2": "INTEGER", "int4": "INTEGER", "int8": "BIGINT", "oid": "BIGINT", "bool": "BOOLEAN",
    "float4": "FLOAT", "float8": "DOUBLE", "uuid": "UUID", "bytea": "BLOB", "date": "DATE",
    "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip
_NOT_COMPARED = {"vector", "halfvec"}

# The tables by whose names the publication's changes are told: partitions by their table's, if it is via the root.
# Unlike pg_publication_tables this locks nothing.
_PUBLISHED = """
WITH named AS (
  SELECT c.oid AS relation
  FROM pg_publication p JOIN pg_class c ON c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND c.oid >= 16384
  WHERE p.pubname = %(publication)s AND (p.puballtables
    OR EXISTS (SELECT FROM pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid = c.relnamespace)
    OR EXISTS (SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = c.oid))
), published AS (
  SELECT n.nspname AS schema_name, c.relname AS table_name, c.oid AS relation, c.relkind = 'p' AS partitioned
  FROM pg_publication p JOIN pg_class c ON c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
  JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = ANY(%(schemas)s)
  CROSS JOIN LATERAL (
    SELECT count(*) > 0 AS named FROM pg_partition_ancestors(c.oid) a JOIN named b ON b.relation = a.relid
    WHERE a.relid <> c.oid
  ) ancestors
  WHERE p.pubname = %(publication)s AND CASE
    WHEN p.pubviaroot THEN c.oid IN (SELECT relation FROM named) AND NOT ancestors.named
    ELSE c.relkind = 'r' AND (c.oid IN (SELECT relation FROM named) OR ancestors.named) END
)"""

_TABLES = f"{_PUBLISHED} SELECT schema_name, table_name, relation, partitioned FROM published ORDER BY 1, 2"

_UNPUBLISHED = f"""{_PUBLISHED}
SELECT n.nspname, c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ANY(%(schemas)s) AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
  AND NOT EXISTS (SELECT FROM published p WHERE c.oid IN (p.relation, pg_partition_root(p.relation)))
ORDER BY 1, 2"""

# A domain stands for its base type; an array is described by its elements' type.
_COLUMNS = """
WITH RECURSIVE base AS (
  SELECT a.attrelid, a.attnum, a.attname, a.attgenerated <> '' AS generated, a.atttypid AS type,
         a.atttypmod AS typmod, format_type(a.atttypid, a.atttypmod) AS declared
  FROM pg_attribute a WHERE a.attrelid = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT b.attrelid, b.attnum, b.attname, b.generated, t.typbasetype, t.typtypmod, b.declared
  FROM base b JOIN pg_type t ON t.oid = b.type WHERE t.typtype = 'd'
)
SELECT b.attrelid, b.attname, b.declared, b.generated, t.typcategory = 'A', coalesce(e.typname, t.typname),
       coalesce(e.typtype, t.typtype) = 'e', b.typmod
FROM base b JOIN pg_type t ON t.oid = b.type AND t.typtype <> 'd'
LEFT JOIN pg_type e ON t.typcategory = 'A' AND e.oid = t.typelem
ORDER BY b.attrelid, b.attnum"""

_KEYS = f"""
SELECT i.indrelid, a.attname FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, position)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = ANY(%s) AND i.indisprimary AND NOT {MISLEADS}
ORDER BY i.indrelid, k.position"""


def captured_tables(connection: psycopg.Connection, publication: str, schemas: tuple[str, ...]) -> list[SourceTable]:
    """Return the tables of these schemas that the publication carries, with columns and key."""
    found = connection.execute(_TABLES.encode(), {"publication": publication, "schemas": list(schemas)}).fetchall()
    excluded: dict[str, set[str]] = {}
    for each in exclusions(connection):
        excluded.setdefault(each.table, set()).add(each.column or "")
    relations = [oid for _, _, oid, _ in found]
    columns, keys = _columns(connection, relations), _keys(connection, relations)
    return [
        SourceTable(
            schema,
            name,
            tuple(replace(c, excluded=c.name in excluded.get(f"{schema}.{name}", ())) for c in columns[oid]),
            tuple(keys[oid]),
            partitioned,
        )
        for schema, name, oid, partitioned in found
    ]


def uncaptured_tables(connection: psycopg.Connection, publication: str, schemas: tuple[str, ...]) -> list[str]:
    """Return ``schema.table`` of what these schemas hold and the publication leaves out."""
    asked = {"publication": publication, "schemas": list(schemas)}
    rows = connection.execute(_UNPUBLISHED.encode(), asked).fetchall()
    return [f"{schema}.{name}" for schema, name in rows]


def _columns(connection: psycopg.Connection, relations: list[int]) -> dict[int, list[TableColumn]]:
    found: dict[int, list[TableColumn]] = defaultdict(list)
    rows = connection.execute(_COLUMNS, (relations,)).fetchall()
    for relation, name, declared, generated, is_array, base, is_enum, typmod in rows:
        found[relation].append(table_column(name, declared, base, is_array, is_enum, generated, typmod))
    return found


def _keys(connection: psycopg.Connection, relations: list[int]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    for relation, name in connection.execute(_KEYS.encode(), (relations,)).fetchall():
        found[relation].append(name)
    return found


def table_column(
    name: str,
    declared: str,
    base: str,
    is_array: bool = False,
    is_enum: bool = False,
    generated: bool = False,
    typmod: int = -1,
) -> TableColumn:
    """Return a column, from what the catalog says of it and of its type; of an array, of its elements' type."""
    kind = _duckdb_type(base, is_array, is_enum, typmod)
    return TableColumn(name, declared, base, kind, is_array, is_enum, generated, why_left_out(base))


def _duckdb_type(base: str, is_array: bool, is_enum: bool, typmod: int) -> str | None:
    element = "VARCHAR" if is_enum else _numeric(is_array, typmod) if base == "numeric" else None
    if base == "bit" and not is_array:
        element = "BOOLEAN" if typmod == 1 else "VARCHAR"
    if base in _NOT_COMPARED or (is_array and base == "hstore"):
        return None
    element = element or DUCKDB_TYPES.get(base, "VARCHAR")
    return f"{element}[]" if is_array else element


def _numeric(is_array: bool, typmod: int) -> str:
    precision, scale = ((typmod - 4) >> 16) & 0xFFFF, (typmod - 4) & 0x7FF
    if is_array or typmod < 0 or precision > 38 or scale > precision:
        return "VARCHAR"
    return f"DECIMAL({precision},{scale})"
