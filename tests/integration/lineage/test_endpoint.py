"""The endpoint, as OpenLineage's and Marquez' own clients see it."""

import httpx
import pytest
from marquez_client import MarquezClient
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState

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
    ],
)
def test_what_is_no_event_is_refused_by_name(http: httpx.Client, change: dict[str, object], wrong: str) -> None:
    answer = http.post("/api/v1/lineage", json={**mirrored(), **change}, headers=BEARER)

    assert answer.status_code == 400
    assert wrong in answer.text


@pytest.mark.parametrize(("content", "status"), [(b"[]", 400), (b"{", 400), (b'"' + b"x" * 9_000_000 + b'"', 413)])
def test_what_is_no_json_object_or_too_large_is_refused(http: httpx.Client, content: bytes, status: int) -> None:
    assert http.post("/api/v1/lineage", content=content, headers=BEARER).status_code == status


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
    for path in ("/api/v1/namespaces/x/datasets/y", "/api/v1/jobs/runs/01890000-0000-7000-8000-000000000001",
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
