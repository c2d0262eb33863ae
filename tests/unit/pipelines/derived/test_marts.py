"""The derived tables that come with the shop: given rows, and what their queries make of them."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.derived.compare import queried
from pipelines.specs.derived import CHANGED, DerivedSpec
from pipelines.specs.load import load_specs
from quality import odcs

SPECS = load_specs().derived
ORDERS = "order_id bigint, customer_id bigint, status string, total decimal(14,2), ship_to string, placed_at timestamp"
ITEMS = "order_id bigint, product_id int, quantity int, unit_price decimal(12,2)"
PRODUCTS = "product_id int, name string, categories array<string>"
PAYMENTS = (
    "payment_id string, order_id bigint, amount decimal(14,2), answer string, paid_at timestamp, _kafka_partition int,"
    " _kafka_offset bigint"
)
CLICKS = (
    "event_id string, anonymous_id string, customer_id bigint, occurred_at timestamp, referrer string,"
    " product_id bigint, campaign struct<source: string, medium: string, name: string>"
)
PLANS = "subscription_id bigint, customer_id bigint, plan string, monthly decimal(10,2), active boolean"
READINGS = "reading_id string, equipment_id string, sensor string, value double, read_at timestamp"


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-01T{text}").replace(tzinfo=UTC)


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    return spark.newSession()


def rows(session: SparkSession, spec: DerivedSpec) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = queried(session, spec).orderBy(*spec.key).toArrow().to_pylist()
    return found


def given(session: SparkSession, **inputs: tuple[str, list[tuple[Any, ...]]]) -> None:
    for name, (columns, values) in inputs.items():
        session.createDataFrame(values, columns).createOrReplaceTempView(name)


def affects(session: SparkSession, spec: DerivedSpec, alias: str) -> set[tuple[Any, ...]]:
    """The keys that all rows of an input affect."""
    query = spec.inputs[alias].affects
    assert query is not None
    session.table(alias).createOrReplaceTempView(CHANGED)
    return {tuple(row.values()) for row in session.sql(query).select(*spec.key).toArrow().to_pylist()}


def test_daily_sales(session: SparkSession) -> None:
    spec, home = SPECS["marts.daily_sales"], '{"country": "DE"}'
    given(
        session,
        orders=(ORDERS, [
            (1, 7, "paid", Decimal(30), home, at("23:59:59")),
            (2, 7, "cancelled", Decimal(99), home, at("10:00:00")),
            (3, None, "placed", Decimal(5), '{"city": "?"}', at("10:00:00")),
        ]),
        order_items=(ITEMS, [
            (1, 1, 2, Decimal(10)), (1, 2, 1, Decimal(10)), (2, 1, 9, Decimal(11)), (3, 2, 1, Decimal(5)),
        ]),
        products=(PRODUCTS, [(1, "lamp", ["light", "home"]), (2, "thing", [])]),
    )  # fmt: skip
    day = date(2026, 3, 1)
    assert [tuple(row.values()) for row in rows(session, spec)] == [
        (day, "light", "DE", 1, 2, Decimal(20)),
        (day, "none", "??", 1, 1, Decimal(5)),
        (day, "none", "DE", 1, 1, Decimal(10)),
    ]
    every = {(day, "light", "DE"), (day, "none", "??"), (day, "none", "DE")}
    assert [affects(session, spec, alias) for alias in spec.inputs] == [every] * 3


def test_customer_360(session: SparkSession) -> None:
    spec = SPECS["marts.customer_360"]
    profile = (
        "customer_id bigint, full_name string, email string, tier string, newsletter boolean, updated_at timestamp"
    )
    given(
        session,
        customers=(profile, [
            (1, "Ann", "a@b", "gold", True, at("08:00:00")), (2, "Bob", "b@b", "basic", False, at("09:00:00")),
        ]),
        orders=(ORDERS, [
            (1, 1, "paid", Decimal(30), "{}", at("10:00:00")), (2, 1, "cancelled", Decimal(99), "{}", at("11:00:00")),
        ]),
        subscriptions=(PLANS, [
            (5, 1, "pro", Decimal(9), True), (6, 1, "basic", Decimal(4), False),
        ]),
        usage_events=("subscription_id bigint, seconds double, occurred_at timestamp", [
            (5, 0.1, at("12:00:00")), (5, 0.2, at("12:30:00")), (404, 5.0, at("13:00:00")),
        ]),
        clicks=(CLICKS, [
            ("a", "x", 1, at("12:45:00"), None, None, None), ("b", "y", None, at("14:00:00"), None, None, None),
        ]),
    )  # fmt: skip
    ann, bob = rows(session, spec)
    assert ann == {
        "customer_id": 1, "full_name": "Ann", "email": "a@b", "tier": "gold", "newsletter": True, "orders": 2,
        "lifetime_value": Decimal(30), "last_order_at": at("11:00:00"), "active_plans": 1, "monthly": Decimal(9),
        "plans": ["basic", "pro"], "usage_events": 2, "usage_seconds": Decimal("0.3"), "clicks": 1,
        "last_click_at": at("12:45:00"), "last_activity_at": at("12:45:00"),
    }  # fmt: skip
    assert (bob["orders"], bob["plans"], bob["last_activity_at"]) == (0, None, at("09:00:00"))
    assert affects(session, spec, "usage_events") == affects(session, spec, "clicks") == {(1,)}


def test_first_touch(session: SparkSession) -> None:
    spec = SPECS["marts.first_touch"]
    spring = ("google", "cpc", "spring")
    given(
        session,
        orders=(ORDERS, [
            (1, 7, "paid", Decimal(30), "{}", at("12:00:00")), (2, 7, "paid", Decimal(3), "{}", at("08:00:00")),
            (3, 8, "paid", Decimal(1), "{}", at("12:00:00")),
        ]),
        clicks=(CLICKS, [
            ("a", "x", None, at("09:00:00"), "https://s", 1, spring), ("b", "x", 7, at("10:00:00"), None, None, None),
            ("c", "y", 7, at("09:30:00"), None, None, None), ("d", "z", None, at("07:00:00"), None, None, spring),
        ]),
        products=(PRODUCTS, [(1, "lamp", [])]),
    )  # fmt: skip
    found = [
        (row["order_id"], row["touches"], row["first_touch_at"], row["campaign"], row["product"])
        for row in rows(session, spec)
    ]
    assert found == [(1, 3, at("09:00:00"), "spring", "lamp"), (2, 0, None, None, None), (3, 0, None, None, None)]
    assert affects(session, spec, "clicks") == affects(session, spec, "products") == {(1,), (2,)}


def test_fraud_alerts(session: SparkSession) -> None:
    spec = SPECS["marts.fraud_alerts"]

    def paid(number: int, order: int, amount: int, when: str, lat: float, lon: float = 13.4) -> tuple[Any, ...]:
        place = f'{{"place": {{"lat": {lat}, "lon": {lon}}}}}'
        return (f"p{number}", order, Decimal(amount), place, at(when), 0, number)

    given(
        session,
        orders=(ORDERS, [(n, n // 10, "paid", Decimal(1), "{}", at("08:00:00")) for n in (10, 20, 30)]),
        payments=(PAYMENTS, [
            # Five within five minutes; then one that is far beyond what is usual; then one from Sydney an hour later.
            *(paid(n, 10, 10, f"10:0{n}:00", 52.5) for n in range(5)),
            paid(5, 20, 10, "10:00:00", 52.5), paid(6, 20, 10, "11:00:00", 52.5), paid(7, 20, 10, "12:00:00", 52.5),
            paid(8, 20, 41, "13:00:00", 52.5),
            paid(9, 30, 10, "10:00:00", 52.5), paid(10, 30, 10, "11:00:00", -33.9, 151.2),
        ]),
    )  # fmt: skip
    found = [(row["customer_id"], row["payment_id"], row["rule"], row["evidence"]) for row in rows(session, spec)]
    assert found == [
        (1, "p4", "velocity", "5 payments within 5 minutes"),
        (2, "p8", "spending", "41.00, and 10.00 is usual"),
        (3, "p10", "impossible_travel", "16097 km in 60 minutes"),
    ]
    assert {(3, "p9", "spending"), (3, "p10", "velocity")} <= affects(session, spec, "payments")
    assert affects(session, spec, "payments") == affects(session, spec, "orders")


def test_readings_by_the_minute(session: SparkSession) -> None:
    spec = SPECS["iot.readings_1m"]
    given(
        session,
        readings=(READINGS, [
            ("a", "press-1", "power", 0.1, at("10:00:00")), ("b", "press-1", "power", 0.2, at("10:00:59.999")),
            ("c", "press-1", "power", 0.9, at("10:00:59.999")), ("d", "press-1", "power", 7.0, at("10:01:00")),
            # What no decimal holds, a broken device has sent.
            ("e", "press-1", "power", 1e308, at("10:01:01")),
        ]),
    )  # fmt: skip
    first, second = rows(session, spec)
    assert first == {
        "window_start": at("10:00:00"), "equipment_id": "press-1", "sensor": "power", "readings": 3, "least": 0.1,
        "greatest": 0.9, "mean": 0.4, "last": 0.9, "last_read_at": at("10:00:59.999"),
    }  # fmt: skip
    assert (second["window_start"], second["readings"], second["mean"]) == (at("10:01:00"), 2, 7.0)


def test_each_has_a_contract_with_its_key() -> None:
    contracts = odcs.load()
    assert {contracts[spec.name].key: spec.key for spec in SPECS.values()} == {s.key: s.key for s in SPECS.values()}
