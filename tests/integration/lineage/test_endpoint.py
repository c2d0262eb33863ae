"""The endpoint, as OpenLineage's and Marquez' own clients see it."""

import gzip
import json
import zlib
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from marquez_client import MarquezClient
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.transport.http import HttpConfig, HttpTransport

from services.lineage.follow.follower import client
from tests.integration.lineage.conftest import KEY, Endpoint
from tests.integration.lineage.told import DAILY, NOON, ORDERS, TOPIC, derived, mirrored

BEARER = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture
def http(endpoint: Endpoint) -> httpx.Client:
    return httpx.Client(base_url=endpoint.url, timeout=30)


def post(http: httpx.Client, *bodies: object) -> None:
    for body in bodies:
        assert http.post("/api/v1/lineage", json=body, headers=BEARER).status_code == 201


def test_openlineage_s_client_can_send(endpoint: Endpoint, http: httpx.Client) -> None:
    sending: OpenLineageClient = client(endpoint.url, KEY)
    sending.emit(RunEvent(
        eventTime=NOON.isoformat(), eventType=RunState.COMPLETE, producer="urn:test",
        run=Run("01890000-0000-7000-8000-000000000001"), job=Job("airflow", "load"),
        inputs=[InputDataset("file", "/in/orders.csv")], outputs=[OutputDataset("s3://lake", "warehouse/raw/orders")],
    ))  # fmt: skip

    graph = http.get("/api/v1/lineage", params={"nodeId": "dataset:s3://lake:warehouse/raw/orders"}).json()["graph"]

    assert {n["id"] for n in graph} == {"dataset:file:/in/orders.csv", "job:airflow:load",
                                        "dataset:s3://lake:warehouse/raw/orders"}  # fmt: skip


def test_marquez_client_can_read(endpoint: Endpoint, http: httpx.Client) -> None:
    post(http, mirrored(), derived())
    marquez = MarquezClient(url=endpoint.url)

    namespaces = {n["name"] for n in marquez.list_namespaces()["namespaces"]}
    orders = marquez.get_dataset(ORDERS.namespace, ORDERS.name)
    listed = [d["name"] for d in marquez.list_datasets(ORDERS.namespace)["datasets"]]
    job = marquez.get_job("lakehouse", "mirror.shop.orders")
    runs = marquez.list_job_runs("lakehouse", "mirror.shop.orders")["runs"]
    columns = marquez.get_column_lineage_by_dataset(DAILY.namespace, DAILY.name)["graph"]

    source = marquez.get_source(TOPIC.namespace)

    assert source in marquez.list_sources()["sources"]
    assert (source["type"], source["connectionUrl"]) == ("KAFKA", TOPIC.namespace)
    assert orders["sourceName"] in {each["name"] for each in marquez.list_sources()["sources"]}
    assert marquez.get_namespace(ORDERS.namespace)["name"] == ORDERS.namespace
    assert namespaces == {TOPIC.namespace, ORDERS.namespace, "lakehouse", "dbt"}
    assert listed == [DAILY.name, ORDERS.name]
    assert orders["fields"][1] == {
        "name": "total", "type": "decimal(14, 2)", "tags": [], "description": "What its lines come to."
    }  # fmt: skip
    assert (job["latestRun"]["id"], job["inputs"]) == (
        runs[0]["id"],
        [{"namespace": TOPIC.namespace, "name": TOPIC.name}],
    )
    assert marquez.get_job_run(runs[0]["id"])["state"] == "COMPLETED"
    assert {n["data"]["field"] for n in columns} == {"revenue", "total"}
    assert marquez.list_dataset_versions(ORDERS.namespace, ORDERS.name)["versions"][0]["version"] == "1"
    assert http.get("/api/v1/events/lineage").json()["totalCount"] == 2


def test_events_are_taken_with_the_key_only(endpoint: Endpoint, http: httpx.Client) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        answer = http.post("/api/v1/lineage", json=mirrored(), headers=headers)
        assert (answer.status_code, "LINEAGE_API_KEY" in answer.text) == (401, True)
    assert endpoint.store.rows("SELECT FROM event") == []


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"eventTime": None}, "eventTime"),
        ({"eventTime": "2026-05-01T12:00:00"}, "eventTime"),
        ({"run": {"runId": "seven"}}, "run.runId"),
        ({"job": {"namespace": "x"}}, "job.name"),
        ({"inputs": [{"name": "x"}]}, "inputs.0.namespace"),
        ({"eventType": "DONE"}, "eventType"),
        (
            {"outputs": [{"namespace": "x", "name": "y", "facets": {"symlinks": {"identifiers": [{"name": "z"}]}}}]},
            "symlinks.identifiers.0.namespace",
        ),
        (
            {"inputs": [{"namespace": "x", "name": "y", "facets": {"schema": {"fields": [{"type": "int"}]}}}]},
            "schema.fields.0.name",
        ),
        ({"outputs": [{"namespace": "x", "name": "y", "outputFacets": {"tags": {"tags": {"key": "z"}}}}]}, "tags.tags"),
        (
            {
                "outputs": [
                    {
                        "namespace": "x",
                        "name": "y",
                        "facets": {"columnLineage": {"fields": {"c": {"inputFields": [{"field": "d"}]}}}},
                    }
                ]
            },
            "columnLineage.fields.c.inputFields.0",
        ),
    ],
)
def test_what_is_no_event_is_refused_by_name(http: httpx.Client, change: dict[str, object], wrong: str) -> None:
    answer = http.post("/api/v1/lineage", json={**mirrored(), **change}, headers=BEARER)

    assert answer.status_code == 400
    assert wrong in answer.text


@pytest.mark.parametrize(("content", "status"), [(b"[]", 400), (b"{", 400), (b'"' + b"x" * 9_000_000 + b'"', 413)])
def test_what_is_no_json_object_or_too_large_is_refused(http: httpx.Client, content: bytes, status: int) -> None:
    assert http.post("/api/v1/lineage", content=content, headers=BEARER).status_code == status


def test_events_may_come_in_bulk(http: httpx.Client) -> None:
    answer = http.post("/api/v1/lineage/batch", json=[mirrored(), {"job": 7}, derived()], headers=BEARER)
    assert answer.status_code == 200
    told = answer.json()
    assert (told["status"], told["summary"]["successful"], told["summary"]["failed"]) == ("partial_success", 2, 1)
    assert [(each["index"], each["retriable"]) for each in told["failed_events"]] == [(1, False)]
    node = f"dataset:{DAILY.namespace}:{DAILY.name}"
    assert node in {n["id"] for n in http.get("/api/v1/lineage", params={"nodeId": node}).json()["graph"]}
    alone = http.post("/api/v1/lineage/batch", json=mirrored(), headers=BEARER)
    assert (alone.status_code, "array" in alone.text) == (400, True)
    assert http.post("/api/v1/lineage/batch", json=[]).status_code == 401


def bare(content: bytes) -> bytes:
    """As clients send that leave out zlib's header."""
    packed = zlib.compressobj(wbits=-15)
    return packed.compress(content) + packed.flush()


EVENT = json.dumps(mirrored()).encode()
BOMB = b'"' + b"x" * 9_000_000 + b'"'


@pytest.mark.parametrize(
    ("encoding", "content", "status", "said"),
    [
        pytest.param("gzip", gzip.compress(EVENT), 201, "", id="gzip"),
        pytest.param("X-GZIP", gzip.compress(EVENT), 201, "", id="gzip by its older name"),
        pytest.param("gzip", gzip.compress(EVENT[:9]) + gzip.compress(EVENT[9:]), 201, "", id="gzip of two members"),
        pytest.param("deflate", zlib.compress(EVENT), 201, "", id="deflate"),
        pytest.param("deflate", bare(EVENT), 201, "", id="deflate without its header"),
        pytest.param("identity", EVENT, 201, "", id="plain, and said so"),
        pytest.param("gzip", EVENT, 400, "isn't gzip", id="not compressed"),
        pytest.param("gzip", gzip.compress(EVENT)[:-9], 400, "cut short", id="cut short"),
        pytest.param("gzip", b"", 400, "not JSON", id="nothing"),
        pytest.param("gzip", gzip.compress(BOMB), 413, "decompressed", id="a small body that is large inside"),
        pytest.param("deflate", zlib.compress(BOMB), 413, "decompressed", id="another"),
        pytest.param("br", EVENT, 415, "gzip, deflate", id="another encoding"),
        pytest.param("gzip, gzip", gzip.compress(gzip.compress(EVENT)), 415, "gzip, deflate", id="two"),
    ],
)
def test_a_body_may_be_compressed(http: httpx.Client, encoding: str, content: bytes, status: int, said: str) -> None:
    answer = http.post("/api/v1/lineage", content=content, headers={**BEARER, "Content-Encoding": encoding})

    assert (answer.status_code, said in answer.text) == (status, True)
    assert http.get("/api/v1/events/lineage").json()["totalCount"] == (status == 201)


def test_openlineage_s_client_can_compress(endpoint: Endpoint) -> None:
    transport = HttpTransport(HttpConfig.from_dict({
        "url": endpoint.url, "auth": {"type": "api_key", "apiKey": KEY}, "compression": "gzip",
    }))  # fmt: skip
    OpenLineageClient(transport=transport).emit(RunEvent(
        eventTime=NOON.isoformat(), eventType=RunState.COMPLETE, producer="urn:test",
        run=Run("01890000-0000-7000-8000-000000000001"), job=Job("airflow", "load"),
    ))  # fmt: skip

    assert endpoint.store.rows("SELECT name FROM job") == [{"name": "load"}]


LONG_NAME = {"namespace": "a", "name": "".join(map(chr, range(400, 9000)))}


def described(text: str) -> dict[str, object]:
    said = mirrored()
    said["job"]["facets"]["sql"] = {"_producer": "urn:test", "_schemaURL": "urn:test:schema", "query": text}
    return said


@pytest.mark.parametrize(
    ("sent", "kept", "places"),
    [
        (r"a\u0000b", "a\ufffdb", ["job.facets.sql.query"]),
        (r"half \ud83d", "half \ufffd", ["job.facets.sql.query"]),
        (r"whole \ud83d\ude00", "whole \U0001f600", None),
        (r"a backslash: \\u0000", "a backslash: \\u0000", None),
    ],
)
def test_an_event_is_kept_whatever_its_texts_hold(
    endpoint: Endpoint, http: httpx.Client, sent: str, kept: str, places: list[str] | None
) -> None:
    content = json.dumps(described("HERE")).replace("HERE", sent)

    answer = http.post("/api/v1/lineage", content=content, headers=BEARER)

    assert answer.status_code == 201
    assert (answer.json() if answer.content else {}).get("replaced") == places
    assert http.get("/api/v1/events/lineage").json()["events"][0]["job"]["facets"]["sql"]["query"] == kept
    assert endpoint.counters.replaced.collect()[0].samples[0].value == bool(places)


def test_nul_is_replaced_in_names_too(http: httpx.Client) -> None:
    sent = {**described("x"), "job": {"namespace": "a", "name": "b\0", "facets": {"c\0": {"d\0": [0, "e\0"]}}}}
    sent["outputs"] = [{"namespace": "n", "name": "m\0", "facets": {"version": {"datasetVersion": "\0"}}}]

    answer = http.post("/api/v1/lineage", json=sent, headers=BEARER)

    assert (answer.status_code, set(answer.json()["replaced"])) == (201, {
        "job.name", "job.facets", "job.facets.c\ufffd", "job.facets.c\ufffd.d\ufffd.1", "outputs.0.name",
        "outputs.0.facets.version.datasetVersion",
    })  # fmt: skip
    assert http.get("/api/v1/namespaces/a/jobs/b%EF%BF%BD").status_code == 200
    assert http.get("/api/v1/namespaces/a/jobs/b%00").status_code == 400


@pytest.mark.parametrize(
    ("change", "status"),
    [
        pytest.param('"x": 1e400', 201, id="a number beyond a double"),
        pytest.param('"x": NaN', 400, id="NaN"),
        pytest.param('"x": ' + "[" * 100_000 + "]" * 100_000, 400, id="nested too deeply to parse"),
        pytest.param('"x": ' + "[" * 101 + "]" * 101, 400, id="nested deeper than is answered"),
        pytest.param('"x": ' + "[" * 99 + "]" * 99, 201, id="nested as deep as is answered"),
        pytest.param(f'"job": {json.dumps(LONG_NAME)}', 400, id="a name too long for an index"),
    ],
)
def test_what_a_store_cannot_hold_is_no_error_of_the_store(http: httpx.Client, change: str, status: int) -> None:
    content = (json.dumps(mirrored())[:-1] + f", {change}}}").encode()

    assert http.post("/api/v1/lineage", content=content, headers=BEARER).status_code == status
    assert http.get("/api/v1/events/lineage").json()["totalCount"] == (status == 201)


def test_marquez_first_page_is_answered(http: httpx.Client) -> None:
    now = datetime.now(UTC)
    for number, kind in enumerate(["START", "FAIL", "START", "COMPLETE", "ABORT", "RUNNING"]):
        post(http, {**mirrored(run=f"{number}"), "eventType": kind, "eventTime": now.isoformat()})
    tag = {"key": "pii", "value": "email", "source": "contract", "field": "mail"}
    facets = {"dataSource": {"name": "warehouse", "uri": "postgres://u:secret@db/x"}, "tags": {"tags": [tag]}}
    post(http, {**mirrored(run="old"), "eventTime": (now - timedelta(days=3)).isoformat(), "inputs": [],
                "job": {"namespace": "lakehouse", "name": "older"},
                "outputs": [{"namespace": "pg", "name": "d", "facets": facets}]})  # fmt: skip

    day = http.get("/api/v1/stats/lineage-events", params={"period": "DAY"}).json()
    week = http.get("/api/v1/stats/lineage-events", params={"period": "WEEK", "timezone": "Asia/Tokyo"}).json()
    known = {
        asset: [each["count"] for each in http.get(f"/api/v1/stats/{asset}", params={"period": "DAY"}).json()]
        for asset in ("jobs", "datasets", "sources")
    }

    assert (len(day), day[-1]["endInterval"] > now.isoformat()) == (24, True)
    ended = {name: sum(each[name] for each in day) for name in ("start", "complete", "fail", "abort")}
    assert ended == {"start": 2, "complete": 1, "fail": 1, "abort": 1}
    assert (len(week), sum(each["complete"] for each in week), week[0]["startInterval"][11:]) == (7, 2, "15:00:00Z")
    assert {asset: (counts[0], counts[-1]) for asset, counts in known.items()} == {
        "jobs": (1, 2), "datasets": (1, 3), "sources": (1, 3)
    }  # fmt: skip
    assert http.get("/api/v1/tags").json()["tags"] == [{"name": "pii:email", "description": None}]
    found = http.get("/api/v1/sources/warehouse").json()
    assert (found["type"], found["connectionUrl"]) == ("POSTGRES", "postgres://[redacted]@db/x")
    assert http.get("/api/v1/jobs", params={"lastRunStates": ["COMPLETED"]}).json()["totalCount"] == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"period": "MONTH"}, "DAY or WEEK"),
        ({"period": "WEEK"}, "needs a timezone"),
        ({"period": "WEEK", "timezone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"period": "WEEK", "timezone": "../../etc/passwd"}, "time zone"),
        ({"period": "WEEK", "timezone": "Europe"}, "time zone"),
    ],
)
def test_what_is_no_period_is_said(http: httpx.Client, given: dict[str, str], said: str) -> None:
    for asset in ("lineage-events", "jobs"):
        answer = http.get(f"/api/v1/stats/{asset}", params=given)
        assert (answer.status_code, said in answer.json()["message"]) == (400, True)


def test_secrets_of_a_producer_s_configuration_do_not_get_in(endpoint: Endpoint, http: httpx.Client) -> None:
    told = mirrored()
    told["run"]["facets"]["configuration"] = {
        "_producer": "urn:test", "_schemaURL": "urn:test:schema",
        "configs": ["database.password=hunter2", "database.user=debezium"],
        "database.password": "hunter2", "url": "postgresql://debezium:hunter2@db/shop",
    }  # fmt: skip

    post(http, told)

    assert "hunter2" not in http.get("/api/v1/events/lineage").text
    kept = http.get(f"/api/v1/jobs/runs/{told['run']['runId']}/facets").json()["facets"]["configuration"]
    assert kept["configs"] == ["database.password=[redacted]", "database.user=debezium"]
    assert kept["url"] == "postgresql://[redacted]@db/shop"


def test_what_is_not_known_is_said(http: httpx.Client) -> None:
    for path in ("/api/v1/namespaces/x/datasets/y", "/api/v1/namespaces/s3:%2F%2Fx", "/api/v1/sources/x",
                 "/api/v1/jobs/runs/01890000-0000-7000-8000-000000000001",
                 "/api/v1/lineage?nodeId=dataset:x:y", "/api/v1/column-lineage?nodeId=datasetField:x:y:z"):  # fmt: skip
        answer = http.get(path)
        assert (answer.status_code, set(answer.json())) == (404, {"code", "message"})


def test_its_own_work_is_counted(http: httpx.Client) -> None:
    post(http, mirrored(), mirrored())
    http.post("/api/v1/lineage", json={}, headers=BEARER)

    counted = http.get("/metrics").text

    assert "lineage_events_taken_total 1.0" in counted
    assert "lineage_events_repeated_total 1.0" in counted
    assert 'lineage_events_refused_total{why="event"} 1.0' in counted
