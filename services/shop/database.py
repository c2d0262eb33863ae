"""The shop's tables as a whole: making, counting and emptying them."""

from pathlib import Path

import psycopg
from psycopg import sql

from services.shop.history import History

# Parents before their children.
TABLES = (
    "customers",
    "addresses",
    "products",
    "inventory",
    "orders",
    "order_items",
    "payments",
    "subscriptions",
    "usage_events",
)
KEYS = {
    "customers": "customer_id",
    "addresses": "address_id",
    "products": "product_id",
    "orders": "order_id",
    "subscriptions": "subscription_id",
    "usage_events": "event_id",
}

_SCHEMA = Path(__file__).with_name("schema.sql")
# Two set-ups at once take turns; any number does that nobody else uses.
_LOCK = 5_470_001


def setup(connection: psycopg.Connection) -> None:
    """Make the schema where there is none; repeatable.

    A schema that is there isn't touched: CREATE INDEX IF NOT EXISTS locks a table against writes even when it has
    nothing to do, and several such locks held at once deadlock with a workload.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        if connection.execute("SELECT to_regclass(%s)", (TABLES[-1],)).fetchone() == (None,):
            connection.execute(_SCHEMA.read_bytes())


def reset(connection: psycopg.Connection) -> None:
    """Empty every table with TRUNCATE, and begin counting runs anew."""
    with connection.transaction():
        connection.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(map(sql.Identifier, TABLES))))
        connection.execute("ALTER SEQUENCE workload_run RESTART")


def is_empty(connection: psycopg.Connection) -> bool:
    """Return whether there are no products: nothing has been loaded."""
    return connection.execute("SELECT 1 FROM products LIMIT 1").fetchone() is None


def next_history(connection: psycopg.Connection, seed: int) -> History:
    """Return the next load's or run's history. Its number is used up, whatever comes of it."""
    row = connection.execute("SELECT nextval('workload_run')").fetchone()
    assert row is not None
    return History(seed, row[0])


def highest_keys(connection: psycopg.Connection) -> dict[str, int]:
    """Return the highest key of each table that counts its keys; 0 for an empty one."""
    found = {}
    for table, key in KEYS.items():
        query = sql.SQL("SELECT coalesce(max({}), 0) FROM {}").format(sql.Identifier(key), sql.Identifier(table))
        row = connection.execute(query).fetchone()
        found[table] = int(row[0]) if row else 0
    return found
