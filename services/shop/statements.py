"""The statements that the workload is made of. Rows are given in the order of load.COLUMNS."""

from dataclasses import dataclass
from typing import Any, Literal, LiteralString

from services.shop.load import COLUMNS

Op = Literal["insert", "update", "delete", "cascade"]


@dataclass(frozen=True)
class Change:
    """One statement on one table. A `cascade` is a query that counts the rows which a changed key has carried along."""

    table: str
    op: Op
    query: LiteralString
    values: tuple[Any, ...]


def insert(table: str, *row: Any) -> Change:
    """Return a whole row, in the order of COLUMNS."""
    return Change(table, "insert", INSERT[table], row)


# Names and placeholders only, all from the module's own constants.
INSERT: dict[str, Any] = {
    table: f"INSERT INTO {table} ({names.replace(' ', ', ')}) VALUES ({', '.join(['%s'] * len(names.split()))})"
    for table, names in COLUMNS.items()
}
RESERVE: LiteralString = "UPDATE inventory SET reserved = reserved + %s WHERE warehouse_id = %s AND product_id = %s"
RESTOCK: LiteralString = """
UPDATE inventory SET quantity = quantity + %s, counted_at = %s WHERE warehouse_id = %s AND product_id = %s"""
PAY: LiteralString = """
INSERT INTO payments (payment_id, order_id, status, amount, card_hash, answer, paid_at)
SELECT %s, order_id, 'authorised', total, %s, %s, %s FROM orders WHERE order_id = %s"""
PAYMENT: LiteralString = "UPDATE payments SET status = %s WHERE order_id = %s"
STATUS: LiteralString = "UPDATE orders SET status = %s, updated_at = %s WHERE order_id = %s"
TOTAL: LiteralString = """
UPDATE orders o SET updated_at = %s, total =
  (SELECT coalesce(sum(i.quantity * i.unit_price), 0) FROM order_items i WHERE i.order_id = o.order_id)
WHERE o.order_id = %s"""
CANCEL: LiteralString = "DELETE FROM order_items WHERE order_id = %s AND line_no = ANY (%s)"
TOUCH: LiteralString = (
    "UPDATE customers SET tier = %s, tags = %s, newsletter = %s, updated_at = %s WHERE customer_id = %s"
)
SCORE: LiteralString = """
UPDATE customers SET profile = jsonb_set(profile, '{score}', to_jsonb(%s::float8)), updated_at = %s
WHERE customer_id = %s"""
PROFILE: LiteralString = "UPDATE customers SET profile = %s, updated_at = %s WHERE customer_id = %s"
PRICE: LiteralString = "UPDATE products SET price = %s, updated_at = %s WHERE product_id = %s"
KEY: LiteralString = "UPDATE customers SET customer_id = %s, updated_at = %s WHERE customer_id = %s"
END: LiteralString = "UPDATE subscriptions SET active = false, ends_on = %s WHERE subscription_id = %s"
CARRIED: dict[str, LiteralString] = {
    "addresses": "SELECT count(*) FROM addresses WHERE customer_id = %s",
    "orders": "SELECT count(*) FROM orders WHERE customer_id = %s",
    "subscriptions": "SELECT count(*) FROM subscriptions WHERE customer_id = %s",
}
# Orders stay, without their customer.
WITHOUT_CUSTOMER: tuple[tuple[str, Op, LiteralString], ...] = (
    ("orders", "update", "UPDATE orders SET customer_id = NULL WHERE customer_id = %s"),
    ("addresses", "delete", "DELETE FROM addresses WHERE customer_id = %s"),
    ("subscriptions", "delete", "DELETE FROM subscriptions WHERE customer_id = %s"),
    ("customers", "delete", "DELETE FROM customers WHERE customer_id = %s"),
)
