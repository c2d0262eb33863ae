"""What tables and columns are called on their way, and which names can't be mirrored."""

import re

import pytest

from pipelines.sources.postgres.names import column_name, need_escapes, routing, table_of, topic_name, why_unusable

# As the connector's naming strategy (3.7) gives them, before the router.
TOPICS = [
    ("orders", "shop.public.orders", "shop.public.orders"),
    ("order_items", "shop.public.order_u005fitems", "shop.public.order_items"),
    ("My Orders", "shop.public.My_u0020Orders", "shop.public.My_u0020Orders"),
    ("na-me.with$", "shop.public.na-me.with_u0024", "shop.public.na-me.with_u0024"),
    ("žena5", "shop.public._u17eena5", "shop.public._u17eena5"),
    ("注文", "shop.public._u6ce8_u6587", "shop.public._u6ce8_u6587"),
    ("🐎", "shop.public._ud83d_udc0e", "shop.public._ud83d_udc0e"),
    ("a_ b__", "shop.public.a_u005f_u0020b_u005f_u005f", "shop.public.a__u0020b__"),
]


@pytest.mark.parametrize(("table", "strategy", "topic"), TOPICS, ids=[table for table, _, _ in TOPICS])
def test_a_tables_topic(table: str, strategy: str, topic: str) -> None:
    found = re.fullmatch(routing()["transforms.underscores.regex"], strategy)
    assert found is not None
    assert "".join(group or "" for group in found.groups()) == topic
    assert topic_name("shop", "public", table) == topic
    assert table_of(topic, [("public", name) for name, _, _ in TOPICS]) == ("public", table)


def test_a_topic_of_no_known_table_is_taken_by_its_name() -> None:
    assert table_of("shop.public._u6ce8", []) == ("public", "_u6ce8")


@pytest.mark.parametrize(
    ("label", "table", "columns", "reason"),
    [
        ("plain", "orders", ["id", "note"], None),
        ("any characters but a dot", 'na-me.$`"', ["my col", "größe", "$a", "op", "Select"], None),
        ("many characters that are escaped", "-$" * 31, ["id"], None),
        ("longer than Kafka allows", "$" * 63, ["id"], "rename it"),
        ("a digit first", "1st", ["id"], "begins with a digit"),
        ("a digit after a dot", "a.1", ["id"], "begins with a digit"),
        ("a dot", "t", ["id", "a.b"], "the column a.b has a dot"),
        ("a name of the lake's", "t", ["id", "_LSN"], "the column _LSN has a name that the lake uses"),
        ("a name of Iceberg's", "t", ["_partition"], "the column _partition"),
    ],
)
def test_what_cannot_be_mirrored(label: str, table: str, columns: list[str], reason: str | None) -> None:
    found = why_unusable("shop", "public", table, columns)
    assert found is None if reason is None else reason in str(found)


def test_columns_are_escaped_only_where_they_would_meet() -> None:
    assert not need_escapes(["id", "my col", "größe"])
    assert need_escapes(["名前", "住所"])
    assert need_escapes(["a b", "a_b"])


def test_the_schema_tells_a_columns_true_name() -> None:
    told = {"type": "string", "connect.parameters": {"__debezium.source.column.name": "my col"}}
    assert column_name({"name": "my_col", "type": ["null", told]}) == "my col"
    assert column_name({"name": "plain", "type": ["null", "string"]}) == "plain"
