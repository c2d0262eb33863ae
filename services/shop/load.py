"""Bulk load by COPY: a shop with a past, after whatever is in the tables already."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any

import psycopg
from psycopg import sql
from pydantic import BaseModel, ConfigDict

from services.shop import values
from services.shop.database import highest_keys, next_history
from services.shop.history import History

Row = Sequence[Any]
OnRows = Callable[[str, int], None]

# At scale 1.
CUSTOMERS, PRODUCTS, ORDERS, SUBSCRIPTIONS, EVENTS = 10_000, 2_000, 40_000, 3_000, 30_000
WAREHOUSES = (1, 2, 3)
BLOCK_ROWS = 20_000

COLUMNS = {
    "customers": "customer_id email full_name tier tags birthday newsletter profile avatar created_at updated_at",
    "addresses": "address_id customer_id label street city postal_code country latitude longitude valid_from",
    "products": "product_id sku name description price tax_rate categories sizes weight_kg released_on discontinued"
    " updated_at",
    "inventory": "warehouse_id product_id quantity reserved counted_at",
    "orders": "order_id customer_id status total currency ship_to note placed_at deliver_by updated_at",
    "order_items": "order_id line_no product_id quantity unit_price",
    "payments": "payment_id order_id status amount card_hash answer paid_at",
    "subscriptions": "subscription_id customer_id plan monthly features starts_on ends_on active",
    "usage_events": "event_id subscription_id kind seconds payload occurred_at",
}


class LoadSummary(BaseModel):
    """What a load wrote: rows by table, and how long it took."""

    model_config = ConfigDict(frozen=True)

    run: int
    rows: dict[str, int]
    seconds: float

    @property
    def total(self) -> int:
        """Rows of all tables."""
        return sum(self.rows.values())


def load(dsn: str, scale: float = 1.0, seed: int = 0, on_rows: OnRows = lambda _table, _rows: None) -> LoadSummary:
    """Load a shop of this scale; at scale 1 more than 200,000 rows.

    Commits in blocks, so that no transaction is huge at any scale. ``on_rows`` hears of each table of a block and its
    rows. Raises psycopg.Error.
    """
    started = time.monotonic()
    rows: dict[str, int] = {}
    with psycopg.connect(dsn, autocommit=True) as connection:
        shop = Past(next_history(connection, seed), scale, highest_keys(connection))
        for block in shop.blocks():
            with connection.transaction():
                for table, content in block:
                    count = _copy(connection, table, content)
                    rows[table] = rows.get(table, 0) + count
                    on_rows(table, count)
        connection.execute("ANALYZE")
    return LoadSummary(run=shop.history.number, rows=rows, seconds=round(time.monotonic() - started, 3))


def _copy(connection: psycopg.Connection, table: str, rows: Iterable[Row]) -> int:
    columns = sql.SQL(", ").join(map(sql.Identifier, COLUMNS[table].split()))
    query = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), columns)
    count = 0
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        for row in rows:
            copy.write_row(row)
            count += 1
    return count


Block = list[tuple[str, Iterable[Row]]]


@dataclass(frozen=True)
class Past:
    """The rows of one load; all from its history, its scale and the keys that are taken."""

    history: History
    scale: float
    taken: dict[str, int]

    def blocks(self) -> Iterator[Block]:
        """Return what is committed together. Parents come before their children."""
        for ids in self._ids("customers", CUSTOMERS):
            yield [("customers", self._customers(ids)), ("addresses", self._addresses(ids))]
        for ids in self._ids("products", PRODUCTS):
            yield [("products", self._products(ids)), ("inventory", self._inventory(ids))]
        for ids in self._ids("orders", ORDERS):
            orders, items, payments = self._orders(ids)
            yield [("orders", orders), ("order_items", items), ("payments", payments)]
        for ids in self._ids("subscriptions", SUBSCRIPTIONS):
            yield [("subscriptions", self._subscriptions(ids))]
        for ids in self._ids("usage_events", EVENTS):
            yield [("usage_events", self._events(ids))]

    def _count(self, base: int) -> int:
        return max(1, round(base * self.scale))

    def _ids(self, table: str, base: int) -> Iterator[range]:
        first, end = self.taken[table] + 1, self.taken[table] + 1 + self._count(base)
        for start in range(first, end, BLOCK_ROWS):
            yield range(start, min(start + BLOCK_ROWS, end))

    def _any(self, random: Random, table: str, base: int) -> int:
        return self.taken[table] + 1 + random.randrange(self._count(base))

    def _stream(self, what: str, ids: range) -> Random:
        return self.history.stream(f"load/{what}/{ids.start}")

    def _ago(self, random: Random, days: int = 300) -> Any:
        return self.history.begins - timedelta(microseconds=random.randrange(days * 86_400_000_000))

    def _customers(self, ids: range) -> Iterator[Row]:
        random = self._stream("customers", ids)
        for customer in ids:
            name, since = values.full_name(random), self._ago(random)
            yield (
                customer,
                values.email(name, f"{self.history.number}.{customer}"),
                name,
                random.choices(("basic", "silver", "gold"), (7, 2, 1))[0],
                values.tags(random),
                values.birthday(random),
                random.random() < 0.4,
                values.profile(random),
                values.avatar(random),
                since,
                since,
            )

    def _addresses(self, ids: range) -> Iterator[Row]:
        random = self._stream("addresses", ids)
        # Up to three of each customer, so that keys of blocks don't meet.
        for customer in ids:
            key = self.taken["addresses"] + 3 * (customer - self.taken["customers"] - 1)
            for number in range(random.choices((1, 2, 3), (6, 3, 1))[0]):
                label = ("home", "work", "holiday")[number]
                yield key + number + 1, customer, label, *values.address(random), self._ago(random).date()

    def _products(self, ids: range) -> Iterator[Row]:
        random = self._stream("products", ids)
        for product in ids:
            name = values.product_name(random)
            yield (
                product,
                values.uuid(random),
                name,
                f"The {name.lower()} you wanted.\n" * random.randint(0, 3) or None,
                values.money(random, 199, 49_999),
                random.choice(("0.000", "0.070", "0.190", "0.200")),
                values.categories(random),
                values.sizes(random),
                round(random.random() * 20, 2),
                self._ago(random, 3000).date() if random.random() < 0.9 else None,
                random.random() < 0.03,
                self._ago(random),
            )

    def _inventory(self, ids: range) -> Iterator[Row]:
        random = self._stream("inventory", ids)
        for product in ids:
            for warehouse in WAREHOUSES:
                yield warehouse, product, random.randint(0, 900), 0, self._ago(random).replace(tzinfo=None)

    def _orders(self, ids: range) -> tuple[list[Row], list[Row], list[Row]]:
        random = self._stream("orders", ids)
        orders: list[Row] = []
        items: list[Row] = []
        payments: list[Row] = []
        statuses = ("placed", "paid", "packed", "shipped", "delivered", "cancelled")
        for order in ids:
            placed, total = self._ago(random, 200), Decimal(0)
            status = random.choices(statuses, (4, 4, 4, 8, 70, 10))[0]
            for line in range(1, random.choices((1, 2, 3, 4, 5), (35, 30, 18, 10, 7))[0] + 1):
                quantity, price = random.randint(1, 4), values.money(random, 199, 49_999)
                total += quantity * price
                items.append((order, line, self._any(random, "products", PRODUCTS), quantity, price))
            customer = self._any(random, "customers", CUSTOMERS)
            orders.append(
                (
                    order,
                    customer,
                    status,
                    total,
                    "EUR",
                    values.ship_to(random),
                    values.note(random),
                    placed,
                    placed.replace(tzinfo=None, microsecond=0) + timedelta(days=4),
                    placed,
                )
            )
            if status not in ("placed", "cancelled"):
                paid = values.uuid(random)
                answered = (random.randbytes(32), values.answer(random, customer))
                payments.append((paid, order, "captured", total, *answered, placed))
        return orders, items, payments

    def _subscriptions(self, ids: range) -> Iterator[Row]:
        random = self._stream("subscriptions", ids)
        for subscription in ids:
            (name, monthly), starts = values.plan(random), self._ago(random).date()
            active = random.random() < 0.8
            yield (
                subscription,
                self._any(random, "customers", CUSTOMERS),
                name,
                monthly,
                values.categories(random),
                starts,
                None if active else starts + timedelta(days=90),
                active,
            )

    def _events(self, ids: range) -> Iterator[Row]:
        random = self._stream("events", ids)
        for event in ids:
            yield event, self._any(random, "subscriptions", SUBSCRIPTIONS), *values.usage(random), self._ago(random, 30)
