"""What a mirrored table is called and how its schema is numbered."""

import json
from typing import Any

import pytest

from pipelines.lake.iceberg_schema import iceberg_schema
from pipelines.lake.names import lake_namespace
from pipelines.sources.debezium.envelope import NotAChangeEvent, key_fields, table_shape
from pipelines.sources.postgres.dialect import POSTGRES
from tests.unit.pipelines.change_events import key_schema, value_schema

ARRAY = {"type": "array", "items": ["null", "string"]}


@pytest.mark.parametrize(
    ("schema", "namespace"), [("public", "shop"), ("sales", "shop_sales")], ids=["public", "another schema"]
)
def test_namespace(schema: str, namespace: str) -> None:
    assert lake_namespace("shop", schema) == namespace


def test_field_ids_are_unique_and_the_key_is_required() -> None:
    columns = {"tags": ARRAY, "id": "long", "name": ["null", "string"]}
    shape = table_shape("shop.public.t", ("public", "t"), value_schema("t", columns), POSTGRES)
    schema = iceberg_schema(shape, ("id",))
    by_name = {field["name"]: field for field in schema["fields"]}
    ids = [field["id"] for field in schema["fields"]] + [by_name["tags"]["type"]["element-id"]]
    assert sorted(ids) == sorted(set(ids))
    assert schema["identifier-field-ids"] == [by_name["id"]["id"]]
    assert [name for name, field in by_name.items() if field["required"]] == ["id"]
    assert list(by_name) == ["tags", "id", "name", "_kafka_partition", "_kafka_offset", "_lsn", "_committed_at", "_op"]


@pytest.mark.parametrize(("kind", "identifies"), [("double", False), ("float", False), (ARRAY, False), ("long", True)])
def test_a_key_that_iceberg_takes_for_no_identifier_is_a_key_all_the_same(kind: Any, identifies: bool) -> None:
    shape = table_shape("shop.public.t", ("public", "t"), value_schema("t", {"id": "long", "k": kind}), POSTGRES)
    schema = iceberg_schema(shape, ("id", "k"))
    assert schema["identifier-field-ids"] == ([1, 2] if identifies else [])
    assert [field["name"] for field in schema["fields"] if field["required"]] == ["id", "k"]


@pytest.mark.parametrize(
    ("label", "topic", "schema"),
    [
        ("another table's schema", "shop.public.other", value_schema("t", {"id": "long"})),
        ("not a record", "shop.public.t", json.dumps("string")),
        ("a record that is no envelope", "shop.public.t", key_schema("t", {"id": "long"})),
    ],
)
def test_a_schema_that_is_not_this_tables_is_refused(label: str, topic: str, schema: str) -> None:
    with pytest.raises(NotAChangeEvent, match=r"its schema is"):
        table_shape(topic, ("public", "t"), schema, POSTGRES)


def test_key_columns_in_the_keys_order() -> None:
    assert key_fields(key_schema("t", {"order_id": "long", "line_no": "int"})) == ("order_id", "line_no")
