"""Which topics the mirror reads."""

import re

import pytest

from pipelines.kafka.read import topic_pattern
from pipelines.settings import MirrorSettings

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
    settings = MirrorSettings.model_construct(source_name="shop", captured_schemas="public, sales")
    assert bool(re.search(topic_pattern(settings), topic)) is read
