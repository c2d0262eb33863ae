"""Events as the published schemas want them.

The schemas themselves come in no package, so what always runs is the client's own classes, which are generated from
them: each facet must be one, with nothing more. Where the schemas are at hand (a checkout of OpenLineage's ``spec``
folder in OPENLINEAGE_SPEC), events are held against them as well.
"""

import importlib
import inspect
import json
import os
import pkgutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attr
import pytest
from jsonschema import Draft202012Validator
from openlineage.client import generated
from openlineage.client.event_v2 import RunEvent
from openlineage.client.serde import Serde
from referencing import Registry, Resource

from lineage import facets, names
from lineage.events import COMPLETE, FAIL, PRODUCER, START, Read, Written, event, run_id
from lineage.facets import IDENTITY, Transformation
from lineage.received import Received

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
TOPIC = names.topic("kafka:19092,other:19092", "shop.public.orders")
SOURCE = names.postgres("source-db", 5432, "shop", "public", "orders")
TABLE = names.location("s3://lake/warehouse/shop/orders")
SPEC = os.environ.get("OPENLINEAGE_SPEC")


def merged() -> RunEvent:
    about = facets.lake_table(
        names.catalogued("http://catalog:8181", "shop", "orders"), "http://catalog:8181", "s3://lake"
    )
    said = {
        **about,
        **facets.schema([("order_id", "long", None), ("total", "decimal(14, 2)", "What its lines come to.")]),
        **facets.ownership({"owner": "order-desk", "steward": None}),
        **facets.documentation("What was ordered."),
        **facets.tags("classification", {"note": "personal"}, "CONTRACT"),
        **facets.column_lineage(
            TOPIC, {"total": ("total", IDENTITY), "_op": ("op", Transformation("DIRECT", "TRANSFORMATION"))}
        ),
        **facets.version("42"),
    }
    return event(
        COMPLETE, NOON, run_id(NOON, "a"), names.job("mirror", "shop.orders"),
        [Read(TOPIC, facets.version('{"0": 7}'), facets.read(7)), Read(SOURCE)],
        [Written(TABLE, said, facets.written(5, 1000, 2))],
        {**facets.engine("Spark", "4.0.2"), **facets.parent(run_id(NOON, "p"), names.job("mirror", "shop"))},
        facets.job_type(True, "SPARK", "Merges."),
    )  # fmt: skip


def checked() -> RunEvent:
    found = [{"name": "total.minimum", "kind": "minimum", "column": "total", "success": False},
             {"name": "volume", "kind": "rowCount", "column": None, "success": True}]  # fmt: skip
    return event(COMPLETE, NOON, run_id(NOON, "c"), names.job("check", "shop.orders"),
                 [Read(TABLE, facets.version("42"), facets.assertions(found, 12))])  # fmt: skip


def failed() -> RunEvent:
    return event(FAIL, NOON, run_id(NOON, "f"), names.job("mirror", "shop.orders"), [Read(TOPIC)], [Written(TABLE)],
                 facets.error("the schema can't be followed"))  # fmt: skip


EVENTS = [merged(), checked(), failed(), event(START, NOON, run_id(NOON, "s"), names.job("mirror", "shop"))]


def sent(told: RunEvent) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(Serde.to_json(told))
    return body


def every_facet(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from body["run"].get("facets", {}).items()
    yield from body["job"].get("facets", {}).items()
    for dataset in (*body.get("inputs", ()), *body.get("outputs", ())):
        for kind in ("facets", "inputFacets", "outputFacets"):
            yield from dataset.get(kind, {}).items()


def published() -> dict[str, type]:
    """Schema's address to the class that is generated from it."""
    found = {}
    for module in pkgutil.iter_modules(generated.__path__):
        for _, kind in inspect.getmembers(importlib.import_module(f"{generated.__name__}.{module.name}"), attr.has):
            if hasattr(kind, "_get_schema"):
                found[kind._get_schema()] = kind
    return found


@pytest.mark.parametrize("told", EVENTS, ids=lambda e: f"{e.eventType.value} {e.job.name}")
def test_each_facet_is_one_of_the_published_ones_with_nothing_more(told: RunEvent) -> None:
    known = published()
    for name, facet in every_facet(sent(told)):
        fields = {field.name: field for field in attr.fields(known[facet["_schemaURL"]])}
        required = {n for n, f in fields.items() if f.default is attr.NOTHING and not n.startswith("_")}
        assert facet["_producer"] == PRODUCER
        assert required <= facet.keys() <= fields.keys(), name


@pytest.mark.parametrize("told", EVENTS, ids=lambda e: f"{e.eventType.value} {e.job.name}")
def test_the_store_takes_them(told: RunEvent) -> None:
    assert Received(sent(told)).at == NOON


@pytest.mark.skipif(SPEC is None, reason="OPENLINEAGE_SPEC names no folder with the published schemas")
@pytest.mark.parametrize("told", EVENTS, ids=lambda e: f"{e.eventType.value} {e.job.name}")
def test_they_are_valid_against_the_published_schemas(told: RunEvent) -> None:
    assert SPEC is not None
    schemas = {
        path.name: json.loads(path.read_text()) for path in Path(SPEC).rglob("*.json") if "tests" not in path.parts
    }

    def retrieve(uri: str) -> Resource[Any]:
        return Resource.from_contents(schemas[uri.split("#", maxsplit=1)[0].rpartition("/")[2]])

    def check(url: str, value: Any) -> None:
        file, _, fragment = url.partition("#")
        reference = f"{schemas[file.rpartition('/')[2]]['$id']}#{fragment}"
        Draft202012Validator(
            {"$ref": reference},
            registry=Registry(retrieve=retrieve),
            format_checker=Draft202012Validator.FORMAT_CHECKER,
        ).validate(value)

    body = sent(told)
    check(body["schemaURL"], body)
    for _, facet in every_facet(body):
        check(facet["_schemaURL"], facet)


def test_names_follow_the_naming_conventions() -> None:
    assert (SOURCE.namespace, SOURCE.name) == ("postgres://source-db:5432", "shop.public.orders")
    assert (TOPIC.namespace, TOPIC.name) == ("kafka://kafka:19092", "shop.public.orders")
    assert (TABLE.namespace, TABLE.name) == ("s3://lake", "warehouse/shop/orders")


def test_a_run_has_the_same_number_whoever_asks() -> None:
    assert run_id(NOON, "mirror", "x") == run_id(NOON, "mirror", "x") != run_id(NOON, "mirror", "y")
