"""Which schemas of a stream are followed, by its spec."""

import json
from typing import Any

import pytest

from pipelines.errors import StopPipeline
from pipelines.events.columns import Column
from pipelines.events.schemas import StreamSchemas
from pipelines.schema.lake_types import printed
from pipelines.specs.events import EventSpec
from tests.unit.pipelines.harness import Registry

HAS = (Column("id", "int"), Column("place", {"type": "struct", "fields": [
    {"name": "x", "required": False, "type": "double"}]}))  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "add": {"place": {"properties": {"x": {"type": "number"}, "y": {"type": "number"}}}},
    "widen": {"id": {"type": "integer"}},
    "change": {"place": {"type": "string"}},
}


def stream(properties: dict[str, Any] | None, **policy: str) -> StreamSchemas:
    own = {} if properties is None else {"json_schema": {"properties": properties}}
    spec = EventSpec(
        kind="events", table="e.t", topic="t", event_time={"column": "at"}, schema_changes=policy, **own
    )  # fmt: skip
    same = {"place": {"properties": {"x": {"type": "number"}}}}
    schemas = {n: json.dumps({"properties": each}) for n, each in enumerate([same, *KINDS.values()], 1)}
    return StreamSchemas(spec, Registry(schemas))


@pytest.mark.parametrize(
    ("kind", "columns"),
    [("add", ["struct<x: double, y: double>", "int"]), ("widen", ["long", "struct<x: double>"])],
)
def test_what_may_be_followed_is(kind: str, columns: list[str]) -> None:
    schemas = stream(None)
    schemas.meet([2 + list(KINDS).index(kind)])
    found = schemas.current(HAS)
    assert found is not None
    assert [printed(column.iceberg) for column in found.columns] == columns


@pytest.mark.parametrize("kind", KINDS)
def test_records_that_need_what_is_not_followed_are_dead_letters(kind: str) -> None:
    schemas, number = stream(None, **{kind: "discard_row"}), 2 + list(KINDS).index(kind)
    schemas.meet([1, number])
    found = schemas.current(HAS)
    assert found is not None
    assert found.writers.keys() == {1}
    assert found.rejected[number].startswith(f"schema_withheld: {kind} ")
    assert {c.name: c.iceberg for c in found.columns} == {c.name: c.iceberg for c in HAS}


@pytest.mark.parametrize("kind", KINDS)
def test_or_the_table_is_held(kind: str) -> None:
    schemas, number = stream(None, **{kind: "freeze"}), 2 + list(KINDS).index(kind)
    schemas.meet([1, number])
    with pytest.raises(StopPipeline, match=f"e.t doesn't follow schema {number}: {kind} "):
        schemas.current(HAS)


def test_a_spec_that_says_another_type_holds_the_table() -> None:
    with pytest.raises(StopPipeline, match="doesn't follow its spec: change place"):
        stream(KINDS["change"], change="discard_row").current(HAS)


def test_of_schemas_that_disagree_the_one_that_came_first_is_followed() -> None:
    schemas = stream(None, change="discard_row")
    schemas.meet([4, 2])
    found = schemas.current(())
    assert found is not None
    assert [printed(column.iceberg) for column in found.columns] == ["struct<x: double, y: double>"]
    assert found.rejected.keys() == {4}
