"""What load and workload write, without a database."""

from decimal import Decimal
from itertools import count, islice
from typing import Any

import pytest

from services.shop.history import History
from services.shop.load import COLUMNS, Past
from services.shop.share import Share
from services.shop.summary import Tally, summed
from services.shop.transactions import Shopper, Transaction
from services.shop.values import profile
from services.shop.workload import _Plan

NOTHING = dict.fromkeys(("customers", "addresses", "products", "orders", "subscriptions", "usage_events"), 0)


def share(connection: int = 0, of: int = 2, customers: int = 20, products: int = 20, seed: int = 1) -> Share:
    def new() -> Any:
        return count(1000 * of + connection, of)

    return Share(
        history=History(seed, 7),
        connection=connection,
        customers=[n for n in range(1, customers + 1) if n % of == connection],
        products={n: Decimal(n) for n in range(1, products + 1) if n % of == connection},
        orders=[],
        subscriptions={},
        next_customer=new(),
        next_address=new(),
        next_product=new(),
        next_order=new(),
        next_subscription=new(),
        next_event=new(),
    )


def transactions(given: Share, number: int = 3000) -> list[Transaction]:
    shopper = Shopper(given)
    return [shopper.next() for _ in range(number)]


def test_same_seed_same_history() -> None:
    assert transactions(share()) == transactions(share())


@pytest.mark.parametrize("other", [share(seed=2), share(connection=1)], ids=["another seed", "another connection"])
def test_another_history(other: Share) -> None:
    assert transactions(share(), 50) != transactions(other, 50)


def test_every_kind_happens() -> None:
    kinds = {transaction.kind for transaction in transactions(share())}
    assert kinds == {
        "place_order", "pay", "advance", "cancel_items", "touch_customer", "rewrite_profile", "new_customer",
        "change_prices", "restock", "use", "subscribe", "unsubscribe", "delete_customer", "return_customer",
        "renew_customer", "change_key", "new_product", "abandoned_order",
    }  # fmt: skip


def test_statements_take_as_many_values_as_they_name() -> None:
    for transaction in transactions(share()):
        for change in transaction.changes:
            assert change.query.count("%s") == len(change.values), change


def test_an_empty_shop_is_stocked_first() -> None:
    first = transactions(share(customers=0, products=0), 2)
    assert [transaction.kind for transaction in first] == ["new_product", "new_customer"]


def test_shares_never_meet() -> None:
    keys = [
        {(change.table, change.values[0])
         for transaction in transactions(share(number)) for change in transaction.changes
         if change.op == "insert" and change.table not in ("inventory", "order_items")}
        for number in (0, 1)
    ]  # fmt: skip
    assert not keys[0] & keys[1]


def test_an_abandoned_order_leaves_no_trace_in_memory() -> None:
    given = share()
    for transaction in transactions(given, 500):
        if transaction.abandoned:
            order = transaction.changes[0].values[0]
            assert order not in {known.order_id for known in given.orders}


def test_a_load_is_repeatable_and_whole() -> None:
    def rows(scale: float = 0.02) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {table: [] for table in COLUMNS}
        for block in Past(History(3, 1), scale, NOTHING).blocks():
            for table, content in block:
                found[table].extend(content)
        return found

    first = rows()
    assert first == rows()
    for table, content in first.items():
        assert {len(row) for row in content} == {len(COLUMNS[table].split())}, table
    customers, orders = {row[0] for row in first["customers"]}, {row[0] for row in first["orders"]}
    assert {row[1] for row in first["orders"]} <= customers
    assert {row[0] for row in first["order_items"]} == orders
    assert len({row[0] for row in first["addresses"]}) == len(first["addresses"])


def test_enough_profiles_are_stored_out_of_line() -> None:
    random = History(0, 0).stream("profiles")
    large = sum(len(profile(random)) > 8_192 for _ in range(400))
    assert 60 < large < 140


@pytest.mark.parametrize(
    ("connection", "number", "due"),
    [(0, 0, 100.0), (1, 0, 100.1), (0, 1, 100.2), (1, 2, 100.5), (0, 3, None)],
    ids=["first", "the other's first", "second", "last", "none left"],
)
def test_the_plan_is_shared_out(connection: int, number: int, due: float | None) -> None:
    plan = _Plan(connection, connections=2, rate=10, planned=6, started=100.0, deadline=None)
    assert plan.due(number) == (None if due is None else pytest.approx(due))


def test_sums() -> None:
    one, other = Tally(), Tally()
    one.kinds["pay"], other.kinds["pay"] = 1, 2
    one.changes["orders", "update"], other.changes["orders", "insert"] = 3, 4
    assert summed([one, other]) == ({"pay": 3}, {"orders": {"insert": 4, "update": 3}})


def test_new_keys_keep_to_their_share() -> None:
    assert list(islice(share(1).next_order, 3)) == [2001, 2003, 2005]
