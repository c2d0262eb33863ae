"""Events for tests."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from openlineage.client.event_v2 import RunEvent
from openlineage.client.serde import Serde

from lineage import facets
from lineage.events import COMPLETE, Read, Written, event, run_id
from lineage.facets import IDENTITY
from lineage.names import Name, job

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
TOPIC = Name("kafka://kafka:9092", "shop.public.orders")
ORDERS = Name("s3://lake", "warehouse/shop/orders")
IN_CATALOG = Name("http://catalog:8181", "shop.orders")
DAILY = Name("s3://lake", "warehouse/gold/daily")


def after(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def body(of: RunEvent) -> dict[str, Any]:
    """As it is sent."""
    parsed: dict[str, Any] = json.loads(Serde.to_json(of))
    return parsed


def mirrored(minutes: float = 0, version: str = "1", kind: Any = COMPLETE, run: str = "one") -> dict[str, Any]:
    """The orders were merged: `total` is made of the topic's `total`."""
    about = facets.lake_table(IN_CATALOG, "http://catalog:8181", "s3://lake/warehouse")
    schema = facets.schema([("order_id", "long", None), ("total", "decimal(14, 2)", "What its lines come to.")])
    made = facets.column_lineage(TOPIC, {"total": ("total", IDENTITY), "order_id": ("order_id", IDENTITY)})
    return body(event(
        kind, after(minutes), run_id(NOON, run), job("mirror", "shop.orders"),
        [Read(TOPIC, facets.version('{"0": 7}'), facets.read(7))],
        [Written(ORDERS, about | schema | made | facets.version(version), facets.written(5, 1000, 2))],
    ))  # fmt: skip


def derived(minutes: float = 1, source: Name = ORDERS, run: str = "derived", kind: Any = COMPLETE) -> dict[str, Any]:
    """A table was made of the orders: `revenue` of `total`."""
    made = facets.column_lineage(source, {"revenue": ("total", facets.Transformation("DIRECT", "AGGREGATION"))})
    return body(event(kind, after(minutes), run_id(after(minutes), run), Name("dbt", "daily"), [Read(source)],
                      [Written(DAILY, made)]))  # fmt: skip
