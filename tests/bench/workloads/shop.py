"""The shop's own mix: nine tables, all types, key changes, large values out of line."""

from services.shop import database, load, workload
from tests.bench.workloads.base import SENTINELS, Connection, Workload

# Of a load at scale 1, and of a transaction of the mix, on average.
LOAD_ROWS, TRANSACTION_CHANGES = 220_000, 3.3
SENTINEL_ROWS = {
    "customers": "newsletter", "addresses": "label", "products": "discontinued", "inventory": "quantity",
    "orders": "note", "order_items": "quantity", "payments": "amount", "subscriptions": "active",
    "usage_events": "kind",
}  # fmt: skip


class Shop(Workload):
    """What `services.shop` loads and does."""

    name, schema = "shop", "public"
    keys = {
        "customers": ("customer_id",), "addresses": ("address_id",), "products": ("product_id",),
        "inventory": ("warehouse_id", "product_id"), "orders": ("order_id",), "order_items": ("order_id", "line_no"),
        "payments": ("payment_id",), "subscriptions": ("subscription_id",), "usage_events": ("event_id",),
    }  # fmt: skip

    def create(self, connection: Connection) -> None:
        database.setup(connection)

    def backlog(self, dsn: str, rows: int, changes: int, seed: int) -> int:
        loaded = load.load(dsn, max(0.001, rows / LOAD_ROWS), seed)
        if not changes:
            return loaded.total
        # As fast as it goes: the plan asks for more than that.
        return loaded.total + self._run(dsn, changes, changes, seed)

    def live(self, dsn: str, rate: float, seconds: float, seed: int) -> int:
        return self._run(dsn, rate, rate * seconds, seed)

    def _run(self, dsn: str, rate: float, changes: float, seed: int) -> int:
        transactions = max(1.0, changes / TRANSACTION_CHANGES)
        # Long enough that a database that can't keep up still runs the whole plan.
        per_second = min(rate / TRANSACTION_CHANGES, 600.0)
        return workload.run(dsn, per_second, transactions / per_second, 4, seed).row_changes

    def sentinel(self, connection: Connection) -> None:
        for table, column in SENTINEL_ROWS.items():
            key = ", ".join(self.keys[table])
            newest = ", ".join(f"{name} DESC" for name in self.keys[table])
            query = (
                f"UPDATE {table} SET {column} = {column} WHERE ({key}) IN"
                f" (SELECT {key} FROM {table} ORDER BY {newest} LIMIT {SENTINELS})"
            )
            connection.execute(query.encode())
