"""What `make chaos` does, one action after the other: decided by a seed. Pure.

A failpoint comes with what makes the mirror pass it: a record that can't be decoded, a schema change, upkeep.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Literal

from pipelines.failpoints import FAILPOINTS, Name
from services.operations.faults.switch import NETWORK

SERVICES = ("mirror", "source-db", "metadata-db", "object-store", "kafka", "schema-registry", "connect", "catalog",
            "capture")  # fmt: skip
TABLES = ("customers", "orders", "order_items", "payments", "products")
BURST = "UPDATE orders SET status = status WHERE order_id IN (SELECT order_id FROM orders ORDER BY order_id LIMIT {})"

Kind = Literal["load", "poison", "column", "key", "upkeep"]
# What makes the mirror pass a failpoint. Under load there is a batch, a merge and a checkpoint every few seconds.
CAUSES: dict[Name, Kind] = {
    "before-batch": "load", "before-merge": "load", "after-merge": "load", "before-checkpoint": "load",
    "before-letters": "poison", "between-letters": "poison", "after-letters": "poison",
    "before-alter": "column", "before-backfill": "column", "after-backfill": "column", "amid-rekey": "key",
    "before-compaction": "upkeep", "after-compaction": "upkeep", "before-expiry": "upkeep", "after-expiry": "upkeep",
}  # fmt: skip


@dataclass(frozen=True)
class Cause:
    """What makes the mirror pass a failpoint: in ``table``, after the failpoint is set.

    ``before``: statements that must be in the lake before it is set.
    """

    kind: Kind
    table: str
    statements: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


@dataclass(frozen=True)
class Action:
    """Something to do to the stack.

    ``lasts``: transactions of the workload until it is undone, if it is. ``cause``: of a failpoint.
    """

    kind: str
    what: str
    lasts: int
    cause: Cause | None = None


def actions(seed: int) -> Iterator[Action]:
    """What is done, one after the other, without end: the same for the same seed."""
    chance = random.Random(seed)
    columns: list[tuple[str, str]] = []
    for number in count():
        kind = chance.choices(("kill", "failpoint", "network", "schema", "burst", "poison"), (4, 4, 4, 3, 1, 1))[0]
        failpoint = chance.choice(list(FAILPOINTS))
        what = {
            "kill": lambda: chance.choice(SERVICES),
            "failpoint": lambda name=failpoint: f"{name} {chance.choice(('kill', 'kill', 'error'))}",
            "network": lambda: chance.choice(list(NETWORK)),
            "schema": lambda number=number: _change(chance, columns, number),
            "burst": lambda: BURST.format(chance.randrange(500, 5000)),
            "poison": lambda: chance.choice(TABLES),
        }[kind]()
        cause = _cause(failpoint, chance.choice(TABLES), columns, number) if kind == "failpoint" else None
        yield Action(kind, what, chance.randrange(20, 300), cause)


def missed(armed: Counter[str], fired: Counter[str]) -> list[str]:
    """The failpoints that didn't fire each time that they were set, if fewer than half of all did; else none."""
    if 2 * fired.total() >= armed.total():
        return []
    return [f"{name} ({fired[name]} of {times})" for name, times in sorted(armed.items()) if fired[name] < times]


def _cause(failpoint: Name, table: str, columns: list[tuple[str, str]], number: int) -> Cause:
    kind = CAUSES[failpoint]
    if kind == "column":
        columns.append((table, f"extra_{number}"))
        return Cause(kind, table, (
            f"ALTER TABLE {table} ADD COLUMN extra_{number} bigint NOT NULL DEFAULT 7",
            f"UPDATE {table} SET extra_{number} = 8 WHERE ctid IN (SELECT ctid FROM {table} LIMIT 1)",
        ))  # fmt: skip
    if kind == "key":
        # One that the workload doesn't know of, which finds its rows by their keys.
        name = f"rekeyed_{number}"
        return Cause(
            kind, name,
            (f"ALTER TABLE {name} DROP CONSTRAINT {name}_pkey, ADD PRIMARY KEY (id, part)",
             f"INSERT INTO {name} VALUES (1, 2)"),
            (f"CREATE TABLE {name} (id bigint PRIMARY KEY, part int NOT NULL)", f"INSERT INTO {name} VALUES (1, 1)"),
        )  # fmt: skip
    return Cause(kind, table)


def _change(chance: random.Random, columns: list[tuple[str, str]], number: int) -> str:
    """A statement that changes the schema of a table in use, in columns that the workload doesn't know of."""
    if columns and chance.random() < 0.4:
        table, column = columns.pop(chance.randrange(len(columns)))
        return f"ALTER TABLE {table} DROP COLUMN {column}"
    if columns and chance.random() < 0.4:
        place = chance.randrange(len(columns))
        table, column = columns[place]
        columns[place] = (table, f"renamed_{number}")
        return f"ALTER TABLE {table} RENAME COLUMN {column} TO renamed_{number}"
    table, kind = chance.choice(TABLES), chance.choice(("int", "text DEFAULT 'as it was'", "bigint NOT NULL DEFAULT 7"))
    columns.append((table, f"extra_{number}"))
    return f"ALTER TABLE {table} ADD COLUMN extra_{number} {kind}"
