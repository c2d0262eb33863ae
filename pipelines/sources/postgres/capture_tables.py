"""Decide what capture does with each table of a source, by the source's own catalog."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import psycopg

from pipelines.sources.base.capture import Exclusion, LeftOut, Mode, SlotState, TableCapture
from pipelines.sources.debezium.names import need_escapes, why_unusable
from pipelines.sources.postgres.capture import PUBLICATION, ROLE, SLOT
from pipelines.sources.postgres.exclusions import exclusions
from pipelines.sources.postgres.keys import MISLEADS
from pipelines.sources.postgres.types import NO_TYPE


@dataclass(frozen=True)
class TableState:
    """One table of a captured schema, as the catalog has it.

    ``false_key`` names an index that Debezium takes for the key of a table without a primary key, though several rows
    may share it; ``true_key`` one that is a key; ``misleading_key`` one, the primary key too, that doesn't tell rows
    apart in events (``lakehouse.tells_rows_apart`` in capture.sql). ``unheld``: columns, with their types, that the
    lake has no type for.
    """

    schema: str
    table: str
    kind: str
    unlogged: bool
    is_partition: bool
    identity: str
    has_primary_key: bool
    published: bool
    readable: bool
    true_key: str | None = None
    false_key: str | None = None
    misleading_key: str | None = None
    generated: tuple[str, ...] = ()
    unheld: tuple[str, ...] = ()
    has_columns: bool = True

    @property
    def name(self) -> str:
        """The name as ``schema.table``."""
        return f"{self.schema}.{self.table}"

    @property
    def keyed_falsely(self) -> bool:
        """Whether rows would be taken for one another."""
        return not self.has_primary_key and self.true_key is None and self.false_key is not None


@dataclass(frozen=True)
class NamedColumns:
    """The columns of a table in one version that the log may still hold, or that is the newest."""

    schema: str
    table: str
    columns: tuple[str, ...]


def misnamed(source: str, versions: Sequence[NamedColumns]) -> dict[str, str]:
    """Return ``schema.table`` to the reason why its names can't be mirrored. Pure."""
    found = ((f"{v.schema}.{v.table}", why_unusable(source, v.schema, v.table, v.columns)) for v in versions)
    return {name: reason for name, reason in found if reason is not None}


def classify(state: TableState, misnamed: Mapping[str, str]) -> TableCapture:
    """Return the mode of one table. Pure."""
    if reason := _why_left_out(state) or misnamed.get(state.name):
        return TableCapture(state.name, Mode.LEFT_OUT, reason)
    if not state.has_primary_key and state.true_key is None:
        if state.identity == "f":
            why = None
            if state.misleading_key is not None:
                why = f"its key {state.misleading_key} is deferrable, or has generated columns, which no event has"
            return TableCapture(state.name, Mode.WHOLE_ROWS, why, _unheld(state))
        # Nothing else can come: a change that PostgreSQL accepts has the old row.
        why = "it has no primary key and no replica identity, so PostgreSQL refuses its updates and deletes"
        why = f"{why} (ALTER TABLE {state.name} REPLICA IDENTITY FULL)"
        return TableCapture(state.name, Mode.INSERTS_ONLY, why, _unheld(state))
    full = "REPLICA IDENTITY FULL" if state.identity == "f" else None
    key = None if state.has_primary_key else f"its key is the unique index {state.true_key}"
    return TableCapture(state.name, Mode.KEYED, "; ".join(filter(None, (key, full))) or None, _unheld(state))


def _unheld(state: TableState) -> str | None:
    """Return what of a table isn't in the lake."""
    columns = ", ".join(state.unheld)
    return f"without {columns}, which the lake has no type for" if columns else None


def left_out(
    source: str,
    states: Sequence[TableState],
    versions: Sequence[NamedColumns],
    exclusions: Sequence[Exclusion] = (),
) -> LeftOut:
    """Return what of these tables the connector must not read. Pure.

    A name that can't be mirrored counts as long as the log holds it, whatever became of the table since.

    A table that can't be read stays in, so that the snapshot says so. Where nothing is published, the publication is
    missing, and that is no reason to leave everything out.
    """
    published = any(s.published for s in states)
    return LeftOut(
        tables=frozenset(
            s.name
            for s in states
            if not s.is_partition
            and s.kind != "f"
            and (s.unlogged or s.keyed_falsely or not s.has_columns or (published and not s.published))
        )
        | misnamed(source, versions).keys()
        | {each.table for each in exclusions if each.column is None},
        partitions=frozenset(s.name for s in states if s.is_partition),
        generated=frozenset(f"{s.name}.{column}" for s in states for column in s.generated),
        escaped=any(need_escapes(version.columns) for version in versions),
        columns=frozenset(f"{each.table}.{each.column}" for each in exclusions if each.column is not None),
    )


def _why_left_out(state: TableState) -> str | None:
    if state.kind == "f":
        return "a foreign table: its rows are in another database, and not in the log"
    if state.unlogged:
        return "an unlogged table: its changes are not in the log (ALTER TABLE … SET LOGGED)"
    if not state.has_columns:
        return "it has no columns, so its rows are nothing but a number (it is read once it has one)"
    return _why_unreadable(state)


def _why_unreadable(state: TableState) -> str | None:
    if not state.published:
        return f"not in the publication {PUBLICATION}"
    if not state.readable:
        return f"the role {ROLE} may not read it (GRANT SELECT ON … TO {ROLE})"
    if state.keyed_falsely:
        return (
            f"it has no primary key, and its unique index {state.false_key} would be taken for one, though it is "
            "partial or has columns that may be null (add a primary key)"
        )
    return None


# Without a primary key, Debezium takes the first unique index, by name, that has no expressions.
_STATES = f"""
SELECT n.nspname, c.relname, c.relkind::text, c.relpersistence = 'u', c.relispartition, c.relreplident::text,
       EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND NOT taken.misleads),
       EXISTS (SELECT FROM pg_publication p JOIN pg_publication_namespace pn ON pn.pnpubid = p.oid
               WHERE p.pubname = %(publication)s AND pn.pnnspid = n.oid)
         OR EXISTS (SELECT FROM pg_publication p JOIN pg_publication_rel pr ON pr.prpubid = p.oid
                    WHERE p.pubname = %(publication)s AND pr.prrelid = c.oid),
       EXISTS (SELECT FROM pg_roles WHERE rolname = %(role)s) AND has_table_privilege(%(role)s::name, c.oid, 'SELECT'),
       CASE WHEN taken.sound AND NOT taken.misleads THEN taken.name END,
       CASE WHEN NOT taken.sound AND NOT taken.misleads THEN taken.name END,
       CASE WHEN taken.misleads THEN taken.name END,
       ARRAY(SELECT a.attname::text FROM pg_attribute a
             WHERE a.attrelid = c.oid AND a.attgenerated <> '' AND NOT a.attisdropped ORDER BY a.attnum),
       ARRAY(SELECT a.attname || ' (' || t.typname || ')' FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
             WHERE a.attrelid = c.oid AND t.typname = ANY (%(no_type)s) AND NOT a.attisdropped ORDER BY a.attnum),
       EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN LATERAL (
  SELECT x.relname::text AS name,
         i.indpred IS NULL AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid
                                           AND a.attnum = ANY (i.indkey) AND NOT a.attnotnull) AS sound,
         {MISLEADS} AS misleads
  FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
  WHERE i.indrelid = c.oid AND i.indisunique AND i.indexprs IS NULL
  ORDER BY i.indisprimary DESC, x.relname LIMIT 1
) taken ON true
WHERE n.nspname = ANY (%(schemas)s) AND c.relkind IN ('r', 'p', 'f') AND c.relpersistence <> 't'
ORDER BY 1, 2"""


def read_states(connection: psycopg.Connection, schemas: Sequence[str]) -> list[TableState]:
    """Return the tables of these schemas, partitions among them. Any role that may connect can read this."""
    asked = {"publication": PUBLICATION, "role": ROLE, "schemas": list(schemas), "no_type": list(NO_TYPE)}
    found = connection.execute(_STATES.encode(), asked).fetchall()
    return [
        TableState(*(*columns, tuple(generated), tuple(unheld), any_)) for *columns, generated, unheld, any_ in found
    ]


_NAMES = """
WITH versions AS (
  SELECT schema_name, table_name, columns, lead(lsn) OVER (PARTITION BY relation ORDER BY id) AS until
  FROM lakehouse.schema_changes
)
SELECT schema_name, table_name, ARRAY(SELECT c ->> 'name' FROM jsonb_array_elements(columns::jsonb) c)
FROM versions
WHERE until IS NULL OR until >= (SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = %s)
ORDER BY until NULLS LAST"""


def read_names(connection: psycopg.Connection, slot: str) -> list[NamedColumns]:
    """Return the columns of the captured tables, now and since the slot's position, by the source's schema log."""
    if connection.execute("SELECT to_regclass('lakehouse.schema_changes') IS NULL").fetchone() == (True,):
        return []
    found = connection.execute(_NAMES, (slot,)).fetchall()
    return [NamedColumns(schema, table, tuple(columns)) for schema, table, columns in found]


def read_captures(connection: psycopg.Connection, source: str, schemas: Sequence[str]) -> list[TableCapture]:
    """Return what becomes of each table of these schemas; of partitions their table's."""
    excluded = exclusions(connection)
    unusable = {each.table: by_hand(each) for each in excluded if each.column is None}
    unusable |= misnamed(source, read_names(connection, SLOT))
    found = [classify(state, unusable) for state in read_states(connection, schemas) if not state.is_partition]
    return [without_columns(table, excluded) for table in found]


def by_hand(exclusion: Exclusion) -> str:
    """Return why a table, or a column of it, isn't read, and how to take it in again. Pure."""
    column = "" if exclusion.column is None else f" --column {exclusion.column}"
    return f"excluded by hand: {exclusion.because} (lakehouse capture include {exclusion.table}{column})"


def without_columns(table: TableCapture, exclusions: Sequence[Exclusion]) -> TableCapture:
    """Return what becomes of a table, with the columns that it comes without. Pure."""
    missing = [f"without {e.column}, {by_hand(e)}" for e in exclusions if e.table == table.name and e.column]
    if table.mode is Mode.LEFT_OUT or not missing:
        return table
    return replace(table, without="; ".join(filter(None, (table.without, *missing))))


def why_left_out(captures: Sequence[TableCapture]) -> dict[str, str]:
    """Return ``schema.table`` of every table that capture doesn't read, and the reason. Pure."""
    return {table.name: table.reason or "" for table in captures if table.mode is Mode.LEFT_OUT}


_SLOT = """
SELECT active, wal_status, confirmed_flush_lsn::text,
       coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint,
       (SELECT nullif(setting::bigint, -1) * 1024 * 1024 FROM pg_settings WHERE name = 'max_slot_wal_keep_size'),
       (SELECT format('process %%s (%%s of %%s) has been open for %%s', pid,
                      coalesce(nullif(application_name, ''), '?'), usename, date_trunc('second', now() - xact_start))
        FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND now() - xact_start > interval '10 seconds'
        ORDER BY xact_start LIMIT 1)
FROM pg_replication_slots WHERE slot_name = %s"""


def read_slot(connection: psycopg.Connection, name: str) -> SlotState | None:
    """Return the slot of this name, or None while there is none."""
    row = connection.execute(_SLOT, (name,)).fetchone()
    return None if row is None else SlotState(*row)
