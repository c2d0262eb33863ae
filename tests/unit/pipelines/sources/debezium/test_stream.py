"""Which topics the mirror reads."""

import re

import pytest

from pipelines.sources.debezium.stream import topic_pattern
from pipelines.sources.postgres.capture import HEARTBEAT_TABLE, SCHEMA_CHANGES

CASES = [
    ("a captured table", "shop.public.orders", True),
    ("a table of a second captured schema", "shop.sales.orders", True),
    ("the heartbeat", "shop.lakehouse.heartbeat", True),
    ("the schema log", "shop.lakehouse.schema_changes", True),
    ("signals are not mirrored", "shop.lakehouse.signal", False),
    ("a schema that isn't captured", "shop.private.orders", False),
    ("another source whose name ends alike", "myshop.public.orders", False),
    ("dead letters", "lakehouse.dead-letters", False),
    ("transactions", "shop.transaction", False),
]


@pytest.mark.parametrize(("label", "topic", "read"), CASES, ids=[case[0] for case in CASES])
def test_topic_pattern(label: str, topic: str, read: bool) -> None:
    pattern = topic_pattern("shop", ("public", "sales"), (HEARTBEAT_TABLE, SCHEMA_CHANGES))
    assert bool(re.search(pattern, topic)) is read
