"""What happens in the shop, one transaction at a time. Pure: statements are composed here, and run elsewhere."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from services.shop import statements as sql
from services.shop import values
from services.shop.load import WAREHOUSES
from services.shop.share import Order, Share
from services.shop.statements import Change, insert


@dataclass(frozen=True)
class Transaction:
    """What a transaction did. ``abandoned``: rolled back, so that it leaves nothing."""

    kind: str
    changes: tuple[Change, ...]
    abandoned: bool = False


class Shopper:
    """The history of one connection: each call of :meth:`next` gives its next transaction. Endless."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._random = share.history.stream(f"run/{share.connection}")
        self._now = share.history.begins
        self._unique = 0
        # The mix: how often each kind happens, of the sum.
        mix: tuple[tuple[int, Callable[[], list[Change] | None]], ...] = (
            (280, self._place_order), (140, self._pay), (170, self._advance), (60, self._cancel_items),
            (90, self._touch_customer), (40, self._rewrite_profile), (40, self._new_customer),
            (50, self._change_prices), (50, self._restock), (110, self._use), (15, self._subscribe),
            (10, self._unsubscribe), (8, self._delete_customer), (8, self._return_customer),
            (8, self._renew_customer), (6, self._change_key), (3, self._new_product),
        )  # fmt: skip
        self._weights = [weight for weight, _ in mix]
        self._kinds = [kind for _, kind in mix]

    def next(self) -> Transaction:
        """Return the next transaction. What the share lacks, it gets first: customers and products."""
        self._now += timedelta(microseconds=self._random.randrange(1_000, 500_000))
        if not self._share.products:
            return Transaction("new_product", tuple(self._new_product()))
        if not self._share.customers:
            return Transaction("new_customer", tuple(self._new_customer()))
        if self._random.random() < 0.01:
            return Transaction("abandoned_order", tuple(self._place_order(keep=False)), abandoned=True)
        kind = self._random.choices(self._kinds, self._weights)[0]
        changes = kind()
        if changes is None:
            return Transaction("place_order", tuple(self._place_order()))
        return Transaction(kind.__name__.removeprefix("_"), tuple(changes))

    def _place_order(self, keep: bool = True) -> list[Change]:
        random, share = self._random, self._share
        order = Order(next(share.next_order), random.choice(share.customers), "placed", [])
        products = random.choices(list(share.products), k=random.choices((1, 2, 3, 4, 5, 6), (30, 28, 18, 12, 8, 4))[0])
        items, stock, total = [], [], share.products[products[0]] * 0
        for line, product in enumerate(products, start=1):
            quantity, price = random.randint(1, 4), share.products[product]
            total += quantity * price
            order.lines.append(line)
            items.append(insert("order_items", order.order_id, line, product, quantity, price))
            stock.append(Change("inventory", "update", sql.RESERVE, (quantity, random.choice(WAREHOUSES), product)))
        deliver_by = self._now.replace(tzinfo=None, microsecond=0) + timedelta(days=random.randint(1, 6))
        head = insert(
            "orders",
            order.order_id,
            order.customer_id,
            "placed",
            total,
            "EUR",
            values.ship_to(random),
            values.note(random),
            self._now,
            deliver_by,
            self._now,
        )
        if keep:
            share.orders.append(order)
        return [head, *items, *stock]

    def _pay(self) -> list[Change] | None:
        order = self._order("placed")
        if order is None:
            return None
        random, order.status = self._random, "paid"
        payment, card = values.uuid(random), random.randbytes(32)
        paid = (payment, card, values.answer(random, order.customer_id), self._now, order.order_id)
        return [Change("payments", "insert", sql.PAY, paid), self._status(order)]

    def _advance(self) -> list[Change] | None:
        order = self._order("paid", "packed", "shipped")
        if order is None:
            return None
        order.status = {"paid": "packed", "packed": "shipped", "shipped": "delivered"}[order.status]
        changes = [self._status(order)]
        if order.status == "shipped":
            changes.append(Change("payments", "update", sql.PAYMENT, ("captured", order.order_id)))
        if order.status == "delivered":
            self._share.orders.remove(order)
        return changes

    def _cancel_items(self) -> list[Change] | None:
        order = self._order("placed", "paid")
        if order is None or not order.lines:
            return None
        gone = self._random.sample(order.lines, self._random.randint(1, len(order.lines)))
        order.lines = [line for line in order.lines if line not in gone]
        changes = [
            Change("order_items", "delete", sql.CANCEL, (order.order_id, gone)),
            Change("orders", "update", sql.TOTAL, (self._now, order.order_id)),
        ]
        if order.lines:
            return changes
        order.status = "cancelled"
        self._share.orders.remove(order)
        return [*changes, self._status(order), Change("payments", "update", sql.PAYMENT, ("refunded", order.order_id))]

    def _touch_customer(self) -> list[Change]:
        random, customer = self._random, self._random.choice(self._share.customers)
        tier = random.choice(("basic", "silver", "gold"))
        return [
            Change(
                "customers",
                "update",
                sql.TOUCH,
                (tier, values.tags(random), random.random() < 0.5, self._now, customer),
            )
        ]

    def _rewrite_profile(self) -> list[Change]:
        random, customer = self._random, self._random.choice(self._share.customers)
        if random.random() < 0.5:
            return [Change("customers", "update", sql.SCORE, (round(random.random() * 100, 3), self._now, customer))]
        return [Change("customers", "update", sql.PROFILE, (values.profile(random), self._now, customer))]

    def _new_customer(self) -> list[Change]:
        customer = next(self._share.next_customer)
        self._share.customers.append(customer)
        return self._customer(customer)

    def _delete_customer(self) -> list[Change] | None:
        if len(self._share.customers) < 2:
            return None
        customer = self._random.choice(self._share.customers)
        self._share.customers.remove(customer)
        self._share.deleted.append(customer)
        return self._without_customer(customer)

    def _return_customer(self) -> list[Change] | None:
        if not self._share.deleted:
            return None
        customer = self._share.deleted.pop(self._random.randrange(len(self._share.deleted)))
        self._share.customers.append(customer)
        return self._customer(customer)

    def _renew_customer(self) -> list[Change]:
        customer = self._random.choice(self._share.customers)
        return [*self._without_customer(customer), *self._customer(customer)]

    def _change_key(self) -> list[Change]:
        share = self._share
        old, new = self._random.choice(share.customers), next(share.next_customer)
        share.customers[share.customers.index(old)] = new
        for order in share.orders:
            order.customer_id = new if order.customer_id == old else order.customer_id
        share.subscriptions = {s: new if c == old else c for s, c in share.subscriptions.items()}
        return [
            Change("customers", "update", sql.KEY, (new, self._now, old)),
            *(Change(table, "cascade", query, (new,)) for table, query in sql.CARRIED.items()),
        ]

    def _change_prices(self) -> list[Change]:
        random, share = self._random, self._share
        changes = []
        for product in random.sample(list(share.products), min(len(share.products), random.randint(1, 3))):
            share.products[product] = values.money(random, 199, 49_999)
            changes.append(Change("products", "update", sql.PRICE, (share.products[product], self._now, product)))
        return changes

    def _restock(self) -> list[Change]:
        random = self._random
        where = (random.choice(WAREHOUSES), random.choice(list(self._share.products)))
        counted = self._now.replace(tzinfo=None)
        # Sometimes counted and corrected at once: one row twice in a transaction.
        return [
            Change("inventory", "update", sql.RESTOCK, (random.randint(-20, 200), counted, *where))
            for _ in range(random.choice((1, 1, 2)))
        ]

    def _new_product(self) -> list[Change]:
        random, share = self._random, self._share
        product = next(share.next_product)
        share.products[product] = values.money(random, 199, 49_999)
        head = insert(
            "products",
            product,
            values.uuid(random),
            values.product_name(random),
            None,
            share.products[product],
            "0.190",
            values.categories(random),
            values.sizes(random),
            round(random.random() * 20, 2),
            self._now.date(),
            False,
            self._now,
        )
        return [head, *(insert("inventory", w, product, 100, 0, self._now.replace(tzinfo=None)) for w in WAREHOUSES)]

    def _use(self) -> list[Change] | None:
        share, random = self._share, self._random
        if not share.subscriptions:
            return None
        subscription = random.choice(list(share.subscriptions))
        return [
            insert("usage_events", next(share.next_event), subscription, *values.usage(random), self._now)
            for _ in range(random.randint(1, 5))
        ]

    def _subscribe(self) -> list[Change]:
        random, share = self._random, self._share
        subscription, customer = next(share.next_subscription), random.choice(share.customers)
        share.subscriptions[subscription] = customer
        return [
            insert(
                "subscriptions",
                subscription,
                customer,
                *values.plan(random),
                values.categories(random),
                self._now.date(),
                None,
                True,
            )
        ]

    def _unsubscribe(self) -> list[Change] | None:
        if not self._share.subscriptions:
            return None
        subscription = self._random.choice(list(self._share.subscriptions))
        del self._share.subscriptions[subscription]
        return [Change("subscriptions", "update", sql.END, (self._now.date(), subscription))]

    def _customer(self, customer: int) -> list[Change]:
        random, share = self._random, self._share
        self._unique += 1
        name = values.full_name(random)
        unique = f"{share.history.number}.{share.connection}.{self._unique}"
        head = insert(
            "customers",
            customer,
            values.email(name, unique),
            name,
            "basic",
            values.tags(random),
            values.birthday(random),
            random.random() < 0.4,
            values.profile(random),
            values.avatar(random),
            self._now,
            self._now,
        )
        return [
            head,
            *(
                insert(
                    "addresses", next(share.next_address), customer, label, *values.address(random), self._now.date()
                )
                for label in ("home", "work")[: random.randint(1, 2)]
            ),
        ]

    def _without_customer(self, customer: int) -> list[Change]:
        share = self._share
        share.orders = [order for order in share.orders if order.customer_id != customer]
        share.subscriptions = {s: c for s, c in share.subscriptions.items() if c != customer}
        return [Change(table, op, query, (customer,)) for table, op, query in sql.WITHOUT_CUSTOMER]

    def _order(self, *statuses: str) -> Order | None:
        """Return an order in one of these states, rather a new one; None if a few tries find none."""
        orders = self._share.orders
        for _ in range(8 if orders else 0):
            order = orders[-1 - int(len(orders) * self._random.random() ** 2)]
            if order.status in statuses:
                return order
        return None

    def _status(self, order: Order) -> Change:
        return Change("orders", "update", sql.STATUS, (order.status, self._now, order.order_id))
