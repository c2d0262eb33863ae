"""Random transactions and schema changes in a real PostgreSQL, mirrored as they come, against what PostgreSQL holds.

Many small tables of every kind at once; nothing waits for the mirror, so that its batches fall anywhere. An example
that fails is printed with what reproduces it, as PostgreSQL ran it. `make test-model` runs more of them.
"""

import os
from collections.abc import Callable
from itertools import count
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from tests.integration.stack import Stack

pytestmark = pytest.mark.process

EXAMPLES = int(os.environ.get("SOURCE_EXAMPLES", "4"))
COLUMNS = "id bigint, part int DEFAULT 1, name text, doc text, amount numeric(10,2), tags text[]"
KINDS = {
    "keyed": "PRIMARY KEY (id)", "composite": "PRIMARY KEY (id, part)", "full": "PRIMARY KEY (id)", "keyless": "",
}  # fmt: skip
TABLES = [f"{kind}_{number}" for kind in KINDS for number in range(2)]
KEY, COLUMN = st.integers(1, 6), st.sampled_from(["name", "extra", "more", "amount", "tags"])
# What PostgreSQL refuses at times, which undoes the step and no more.
REFUSED = (
    psycopg.errors.UniqueViolation, psycopg.errors.UndefinedColumn, psycopg.errors.DuplicateColumn,
    psycopg.errors.NotNullViolation, psycopg.errors.InvalidTableDefinition, psycopg.errors.DatatypeMismatch,
)  # fmt: skip

# What a value is made of: unlike any before, and so long that PostgreSQL keeps it out of line, or not.
_made = count()


def _step(*sql: str, **chosen: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    return st.tuples(st.just("; ".join(sql)), st.fixed_dictionaries(chosen))


INSERT = "INSERT INTO {table} (id, doc) VALUES ({key}, repeat('doc {new} ', 900))"
STEP = st.one_of(
    *[_step(INSERT, key=KEY)] * 3,
    *[_step("UPDATE {table} SET part = {part} WHERE id = {key}", key=KEY, part=st.integers(1, 3))] * 2,
    _step("UPDATE {table} SET doc = repeat('doc {new} ', 900) WHERE id = {key}", key=KEY),
    _step("UPDATE {table} SET {column} = NULL WHERE id = {key}", column=COLUMN, key=KEY),
    _step("UPDATE {table} SET {column} = DEFAULT, doc = left(doc, 3)", column=COLUMN),
    _step("UPDATE {table} SET id = {other} WHERE id = {key}", key=KEY, other=KEY),
    _step("UPDATE {table} SET id = -id"),
    _step("DELETE FROM {table} WHERE id = {key}", key=KEY),
    _step("DELETE FROM {table} WHERE id = {key}", INSERT, key=KEY),
    _step(INSERT, "DELETE FROM {table} WHERE id = {key}", key=KEY),
    _step("TRUNCATE {table}"),
    _step("TRUNCATE {table}", INSERT, key=KEY),
    _step("ALTER TABLE {table} ADD COLUMN {column} {type}", column=COLUMN, type=st.sampled_from(
        ["int", "text DEFAULT 'as it was'", "bigint NOT NULL DEFAULT 7", "uuid DEFAULT gen_random_uuid()", "bytea"])),
    _step("ALTER TABLE {table} DROP COLUMN {column}", column=COLUMN),
    _step("ALTER TABLE {table} RENAME COLUMN {column} TO {to}", column=COLUMN, to=COLUMN),
    _step("ALTER TABLE {table} ALTER COLUMN amount TYPE numeric(16,2)"),
    _step("ALTER TABLE {table} ALTER COLUMN part TYPE bigint"),
    _step("ALTER TABLE {table} ALTER COLUMN {column} TYPE text USING 'made ' || {column}::text", column=COLUMN),
)  # fmt: skip
TRANSACTION = st.tuples(
    st.lists(st.tuples(st.sampled_from(TABLES), STEP), min_size=1, max_size=6),
    st.sampled_from([True, True, True, False]),
)  # fmt: skip


@settings(
    max_examples=EXAMPLES, deadline=None, database=None, print_blob=True, phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(transactions=st.lists(TRANSACTION, min_size=20, max_size=60))
def test_a_random_history_of_a_real_source(stack: Stack, transactions: list[tuple[Any, bool]]) -> None:
    prefix = f"m{next(_made)}_"
    with stack.source() as source:

        def run(sql: str) -> None:
            note(sql)
            source.execute(sql.encode())

        for table in TABLES:
            kind = table.partition("_")[0]
            run(f"CREATE TABLE {prefix}{table} ({', '.join(filter(None, (COLUMNS, KINDS[kind])))})")
            run(f"ALTER TABLE {prefix}{table} ALTER COLUMN doc SET STORAGE EXTERNAL")
            if kind in ("full", "keyless"):
                run(f"ALTER TABLE {prefix}{table} REPLICA IDENTITY FULL")
        for steps, committed in transactions:
            run("BEGIN")
            for table, step in steps:
                _take(run, prefix + table, *step)
            run("COMMIT" if committed else "ROLLBACK")
    stack.assert_equal(*(f"public.{prefix}{table}" for table in TABLES))


def _take(run: Callable[[str], None], table: str, sql: str, chosen: dict[str, Any]) -> None:
    run("SAVEPOINT step")
    try:
        run(sql.format(table=table, new=next(_made), **chosen))
    except REFUSED as error:
        note(f"-- refused: {type(error).__name__}")
        run("ROLLBACK TO SAVEPOINT step")
