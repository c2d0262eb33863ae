"""What one connection knows of the shop: its share of the keys, as they were when the run began and as it left them.

Shares don't meet. Customers (with their addresses, orders and subscriptions) belong to one connection by the customer's
key, products (with their stock) by the product's, and new keys are handed out in steps. So what one connection does
never depends on another.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count

import psycopg

from services.shop.history import History

# What a connection keeps in mind of each kind, at most: the newest.
REMEMBERED = 4_000


@dataclass
class Order:
    """An order that something can still happen to."""

    order_id: int
    customer_id: int
    status: str
    lines: list[int]


@dataclass
class Share:
    """One connection's share of the keys, and its new keys. ``deleted``: customers who may come back."""

    history: History
    connection: int
    customers: list[int]
    products: dict[int, Decimal]
    orders: list[Order]
    subscriptions: dict[int, int]
    next_customer: Iterator[int]
    next_address: Iterator[int]
    next_product: Iterator[int]
    next_order: Iterator[int]
    next_subscription: Iterator[int]
    next_event: Iterator[int]
    deleted: list[int] = field(default_factory=list)


# A customer's orders go with the customer, whatever the orders' own keys.
_CUSTOMERS = """
SELECT customer_id FROM customers WHERE mod(customer_id, %(of)s) = %(share)s ORDER BY customer_id DESC LIMIT %(most)s"""
_PRODUCTS = """
SELECT product_id, price FROM products WHERE mod(product_id, %(of)s) = %(share)s
ORDER BY product_id DESC LIMIT %(most)s"""
_ORDERS = """
SELECT o.order_id, o.customer_id, o.status::text,
       ARRAY(SELECT i.line_no FROM order_items i WHERE i.order_id = o.order_id ORDER BY i.line_no)
FROM orders o WHERE mod(o.customer_id, %(of)s) = %(share)s AND o.status IN ('placed', 'paid', 'packed', 'shipped')
ORDER BY o.order_id DESC LIMIT %(most)s"""
_SUBSCRIPTIONS = """
SELECT subscription_id, customer_id FROM subscriptions
WHERE mod(customer_id, %(of)s) = %(share)s AND active ORDER BY subscription_id DESC LIMIT %(most)s"""


def read_share(connection: psycopg.Connection, history: History, share: int, of: int, highest: dict[str, int]) -> Share:
    """Return the share of connection ``share`` out of ``of``; read before any begins. ``highest``: keys in use."""
    given = {"share": share, "of": of, "most": REMEMBERED}

    def new(table: str) -> Iterator[int]:
        """Return keys above those in use that leave ``share`` as remainder."""
        return count(highest[table] + 1 + (share - highest[table] - 1) % of, of)

    return Share(
        history=history,
        connection=share,
        customers=[row[0] for row in connection.execute(_CUSTOMERS, given)],
        products=dict(connection.execute(_PRODUCTS, given).fetchall()),
        orders=[Order(*row) for row in connection.execute(_ORDERS, given)],
        subscriptions=dict(connection.execute(_SUBSCRIPTIONS, given).fetchall()),
        next_customer=new("customers"),
        next_address=new("addresses"),
        next_product=new("products"),
        next_order=new("orders"),
        next_subscription=new("subscriptions"),
        next_event=new("usage_events"),
    )
