"""Random transactions and schema changes in a real PostgreSQL, mirrored as they come, against what PostgreSQL holds.

Small tables of every kind at once; nothing waits for the mirror, so that its batches fall anywhere. A seed decides what
is done; SOURCE_EXAMPLES is how many others are tried besides those kept here (`make test-model`).
"""

import os
import random
from collections.abc import Iterator

import psycopg
import pytest

from tests.integration.stack import Stack

pytestmark = pytest.mark.process

KEPT = [1, 2]
SEEDS = [*KEPT, *(random.SystemRandom().randrange(10**6) for _ in range(int(os.environ.get("SOURCE_EXAMPLES", "0"))))]
TRANSACTIONS = 60
COLUMNS = "id bigint, part int DEFAULT 1, name text, doc text, amount numeric(10,2), tags text[]"
KINDS = {"keyed": "PRIMARY KEY (id)", "composite": "PRIMARY KEY (id, part)", "full": "PRIMARY KEY (id)", "keyless": ""}
INSERT = "INSERT INTO {table} (id, doc) VALUES ({key}, repeat('doc {new} ', 900))"
# Each with how often it is chosen.
STEPS = {
    INSERT: 6,
    "UPDATE {table} SET part = {small} WHERE id = {key}": 4,
    "UPDATE {table} SET doc = repeat('doc {new} ', 900) WHERE id = {key}": 2,
    "UPDATE {table} SET {column} = NULL WHERE id = {key}": 2,
    "UPDATE {table} SET {column} = DEFAULT, doc = left(doc, 3)": 1,
    "UPDATE {table} SET id = {other} WHERE id = {key}": 3,
    "UPDATE {table} SET id = -id": 1,
    "DELETE FROM {table} WHERE id = {key}": 2,
    "DELETE FROM {table} WHERE id = {key}; " + INSERT: 2,
    INSERT + "; DELETE FROM {table} WHERE id = {key}": 1,
    "TRUNCATE {table}": 1,
    "TRUNCATE {table}; " + INSERT: 1,
    "ALTER TABLE {table} ADD COLUMN {column} {type}": 2,
    "ALTER TABLE {table} DROP COLUMN {column}": 1,
    "ALTER TABLE {table} RENAME COLUMN {column} TO {to}": 1,
    "ALTER TABLE {table} ALTER COLUMN amount TYPE numeric(16,2)": 1,
    "ALTER TABLE {table} ALTER COLUMN part TYPE bigint": 1,
    "ALTER TABLE {table} ALTER COLUMN {column} TYPE text USING 'made ' || {column}::text": 1,
}
TYPES = ["int", "text DEFAULT 'as it was'", "bigint NOT NULL DEFAULT 7", "uuid DEFAULT gen_random_uuid()", "bytea"]
CHANGED = ["name", "extra", "more", "amount", "tags"]
# What PostgreSQL refuses at times, which undoes the step and no more.
REFUSED = (
    psycopg.errors.UniqueViolation, psycopg.errors.UndefinedColumn, psycopg.errors.DuplicateColumn,
    psycopg.errors.NotNullViolation, psycopg.errors.InvalidTableDefinition, psycopg.errors.DatatypeMismatch,
)  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_history_of_a_real_source(stack: Stack, seed: int) -> None:
    tables = {f"m{seed}_{kind}_{number}": kind for kind in KINDS for number in range(2)}
    with stack.source() as source:
        for table, kind in tables.items():
            source.execute(f"CREATE TABLE {table} ({', '.join(filter(None, (COLUMNS, KINDS[kind])))})".encode())
            source.execute(f"ALTER TABLE {table} ALTER COLUMN doc SET STORAGE EXTERNAL".encode())
            if kind in ("full", "keyless"):
                source.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL".encode())
            source.execute(f"INSERT INTO {table} (id) VALUES (0)".encode())
        for statement in _history(seed, list(tables)):
            try:
                source.execute(statement.encode())
            except REFUSED:
                source.execute("ROLLBACK TO SAVEPOINT step")
    stack.assert_equal(*(f"public.{table}" for table in tables))


def _history(seed: int, tables: list[str]) -> Iterator[str]:
    """What is executed. Every step has a savepoint before it, to go back to where PostgreSQL refuses it."""
    chance = random.Random(seed)
    for number in range(TRANSACTIONS):
        yield "BEGIN"
        for step in chance.choices(list(STEPS), list(STEPS.values()), k=chance.randrange(1, 7)):
            yield "SAVEPOINT step"
            yield step.format(
                table=chance.choice(tables), key=chance.randrange(1, 7), other=chance.randrange(1, 7),
                small=chance.randrange(1, 4), column=chance.choice(CHANGED), to=chance.choice(CHANGED),
                type=chance.choice(TYPES), new=f"{number} {chance.randrange(10**6)}",
            )  # fmt: skip
        yield chance.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"])
