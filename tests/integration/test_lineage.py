"""Lineage beside the whole stack: what the lake, Debezium and a Spark job of somebody's tell, and what can be asked."""

import os
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.stack import CHECKOUT, PYTHON, WAIT_SECONDS, Stack, wait_until

pytestmark = pytest.mark.process


def events(stack: Stack) -> list[dict[str, Any]]:
    answer = httpx.get(f"{stack.endpoints['lineage_url']}/api/v1/events/lineage?limit=10000", timeout=60)
    answer.raise_for_status()
    found: list[dict[str, Any]] = answer.json()["events"]
    return found


def of_job(stack: Stack, name: str, kind: str = "COMPLETE") -> list[dict[str, Any]]:
    return [e for e in events(stack) if e["job"]["name"] == name and e["eventType"] == kind]


def newest_snapshot(stack: Stack, table: str) -> str:
    return str(stack.lakehouse("table", "show", table)["snapshot_id"])


def is_told(stack: Stack, table: str, snapshot: str) -> bool:
    return "error" not in stack.lakehouse("lineage", "snapshot", table, snapshot, ok=(0, 2))


def names(graph: list[dict[str, Any]]) -> set[str]:
    return {node["data"]["name"] for node in graph}


def test_every_row_s_way_is_known_from_the_source_s_column_on(stack: Stack) -> None:
    stack.sql(
        "CREATE TABLE traced (id bigint PRIMARY KEY, paid numeric(9,2))", "INSERT INTO traced VALUES (1, 2), (2, 3)"
    )
    stack.assert_equal("traced")
    snapshot = newest_snapshot(stack, "traced")
    wait_until(lambda: is_told(stack, "traced", snapshot))

    made = stack.lakehouse("lineage", "snapshot", "traced", snapshot)["createdByRun"]
    (read,), (wrote,) = made["inputDatasetVersions"], made["outputDatasetVersions"]
    shown = stack.lakehouse("lineage", "show", "traced", "--upstream")
    column = stack.lakehouse("lineage", "show", "traced.paid", "--upstream")
    flows = stack.lakehouse("table", "show", "traced")["lineage"]

    positions = stack.lakehouse("table", "show", "traced")["positions"]
    assert read["versions"][-1] == str(positions).replace("'", '"')
    assert (read["facets"]["inputStatistics"]["rowCount"], wrote["facets"]["outputStatistics"]["rowCount"]) == (2, 2)
    assert stack.lakehouse("lineage", "run", made["id"])["state"] in ("RUNNING", "COMPLETED")
    assert names(shown["graph"]) == {
        "shop.public.traced", "warehouse/shop/traced", "capture.shop.traced", "mirror.shop.traced"
    }  # fmt: skip
    assert [n["data"]["field"] for n in column["graph"]] == ["paid"] * 3
    assert [flow.split(" (")[0] for flow in flows["upstream"]] == ["shop.public.traced", "shop.public.traced"]
    assert stack.lakehouse("lineage", "show", "traced", "--at", "1d")["graph"][0]["inEdges"] == []
    assert "has no column nothing" in stack.lakehouse("lineage", "show", "traced.nothing", ok=(2,))["error"]
    assert "no dataset of lineage is called" in stack.lakehouse("lineage", "show", "nothing", ok=(2,))["error"]


def test_the_connector_tells_what_it_reads_and_no_secret(stack: Stack) -> None:
    wait_until(lambda: any(e["job"]["name"] == "shop.0" and e.get("inputs") for e in events(stack)))
    told = [e for e in events(stack) if e["job"]["name"] == "shop.0"]

    types = {f["name"]: f["type"] for e in told for i in e["inputs"] if i["name"] == "shop.public.orders"
             for f in i["facets"]["schema"]["fields"]}  # fmt: skip
    text = str(events(stack))

    assert (types["total"], types["placed_at"]) == ("numeric", "timestamptz")
    assert all("debezium_config" not in e["run"]["facets"] for e in told)
    assert not [secret for secret in stack.secrets if secret in text]


@pytest.mark.slow
def test_while_lineage_hangs_the_stream_goes_on_and_afterwards_all_is_told(stack: Stack) -> None:
    stack.sql("CREATE TABLE untold (id bigint PRIMARY KEY)", "INSERT INTO untold VALUES (0)")
    stack.assert_equal("untold")
    hanging = stack.processes("lineage")
    for process in hanging:
        process.suspend()
    try:
        for number in range(1, 4):
            stack.sql(f"INSERT INTO untold VALUES ({number})")
            stack.lakehouse("wait", "--timeout", str(WAIT_SECONDS))
        stack.sql("ALTER TABLE untold ADD COLUMN note text", "INSERT INTO untold VALUES (9, 'new')")
        stack.assert_equal("untold")
    finally:
        for process in hanging:
            process.resume()
    snapshots = [s for s in stack.catalog().load_table("shop.untold").snapshots()
                 if s.summary and "lakehouse.offsets" in s.summary.additional_properties]  # fmt: skip
    assert len(snapshots) >= 5
    for snapshot in snapshots:
        wait_until(lambda number=snapshot.snapshot_id: is_told(stack, "untold", str(number)))
    stack.make("kill", "s=lineage")
    stack.sql("INSERT INTO untold VALUES (10, 'after')")
    stack.assert_equal("untold")
    last = newest_snapshot(stack, "untold")
    wait_until(lambda: is_told(stack, "untold", last))
    wait_until(lambda: stack.lakehouse("lineage", "show", "untold.note", ok=(0, 2)).get("graph"))


@pytest.mark.slow
def test_a_held_table_its_dead_letters_and_their_replay_are_told(stack: Stack) -> None:
    stack.sql("CREATE TABLE torrent (id bigint PRIMARY KEY)", "INSERT INTO torrent VALUES (1)")
    stack.assert_equal("torrent")
    stack.produce("torrent", *[b"broken"] * 200, key=None)

    wait_until(lambda: of_job(stack, "mirror.shop.torrent", "FAIL"))
    why = of_job(stack, "mirror.shop.torrent", "FAIL")[0]["run"]["facets"]["errorMessage"]["message"]
    assert "lakehouse dlq accept shop.public.torrent" in why
    stack.lakehouse("dlq", "accept", "shop.public.torrent", "--because", "sent by a test")
    stack.lakehouse("wait", "--timeout", str(WAIT_SECONDS))
    letters = stack.lakehouse("dlq", "list", "--topic", "shop.public.torrent")["letters"]
    first = ":".join(str(letters[0][name]) for name in ("topic", "partition", "offset"))
    stack.lakehouse("dlq", "replay", first)
    wait_until(lambda: of_job(stack, "replay.shop.torrent"))
    stack.lakehouse("wait", "--timeout", str(WAIT_SECONDS))

    def letters_told() -> bool:
        wrote = {o["name"]: o["outputFacets"]["outputStatistics"]["rowCount"]
                 for e in of_job(stack, "mirror.shop.torrent", "RUNNING") for o in e["outputs"]}  # fmt: skip
        return wrote.get("lakehouse.dead-letters", 0) > 0 and wrote.get("warehouse/lakehouse/dead_letters", 0) > 0

    wait_until(letters_told)
    stack.lakehouse("dlq", "discard", "--topic", "shop.public.torrent", "--because", "sent by a test")


@pytest.mark.slow
def test_checks_and_upkeep_are_told(stack: Stack) -> None:
    stack.sql("INSERT INTO customers VALUES (900001, 'x@y', 'X', 'gold', '{}', NULL, false, '{}', NULL, now(), now())")
    stack.assert_equal("customers")
    (run,) = stack.own("check", "customers", ok=(0, 1))["tables"]
    wait_until(lambda: of_job(stack, "check.shop.customers"))
    (dataset,) = of_job(stack, "check.shop.customers")[0]["inputs"]
    found = dataset["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert {each["name"]: each["success"] for each in found} == {r["name"]: r["success"] for r in run["results"]}
    assert dataset["facets"]["version"]["datasetVersion"] == str(run["snapshot_id"])
    told = httpx.get(f"{stack.endpoints['lineage_url']}/metrics", timeout=60).text
    kept = sum(each["success"] for each in found)
    assert f'lakehouse_check_promises{{outcome="kept",table="shop.customers"}} {kept}.0' in told

    done = {answer["task"] for answer in stack.lakehouse("maintain", "customers", "--now")["done"]}
    assert done
    for task in done:
        wait_until(lambda task=task: of_job(stack, f"maintain.shop.customers.{task}"))
    shown = stack.lakehouse("lineage", "show", "customers", "--upstream")["graph"]
    names = {n["data"]["name"] for n in shown if n["type"] == "DATASET"}
    # And where dead letters of the table were replayed on this stack, their topic.
    assert names - {"lakehouse.dead-letters"} == {"shop.public.customers", "warehouse/shop/customers"}


@pytest.mark.slow
def test_spark_s_own_listener_can_tell_of_tables_that_are_made_of_ours(stack: Stack, tmp_path: Path) -> None:
    stack.sql("CREATE TABLE raw (id bigint PRIMARY KEY, paid numeric(9,2))", "INSERT INTO raw VALUES (1, 2), (2, 3)")
    stack.assert_equal("raw")
    wait_until(lambda: is_told(stack, "raw", newest_snapshot(stack, "raw")))
    endpoints = stack.endpoints
    script = tmp_path / "derive.py"
    script.write_text(DERIVE, encoding="utf-8")
    environment = {
        **os.environ, **{name.upper(): value for name, value in endpoints.items()},
        "AWS_REGION": endpoints["s3_region"], "AWS_ACCESS_KEY_ID": endpoints["s3_access_key"],
        "AWS_SECRET_ACCESS_KEY": endpoints["s3_secret_key"],
        "JARS": ":".join(str(jar) for jar in (CHECKOUT / ".lakehouse/toolchain/jars/spark").glob("*.jar")),
    }  # fmt: skip
    done = subprocess.run([PYTHON, str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]

    wait_until(lambda: "error" not in stack.lakehouse("lineage", "show", "derived.totals.paid", ok=(0, 2)))
    column = stack.lakehouse("lineage", "show", "derived.totals.paid", "--upstream")["graph"]
    flows = stack.lakehouse("table", "show", "raw")["lineage"]

    assert {(n["data"]["dataset"], n["data"]["field"]) for n in column} == {
        ("warehouse/derived/totals", "paid"), ("warehouse/shop/raw", "paid"), ("shop.public.raw", "paid"),
    }  # fmt: skip
    assert "lake.derived.totals" in flows["downstream"]


DERIVE = """
import os
from pyspark.sql import SparkSession

env = os.environ
builder = SparkSession.builder.master("local[1]").appName("derive")
for name, value in {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraClassPath": env["JARS"],
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "rest",
    "spark.sql.catalog.lake.uri": env["CATALOG_URI"],
    "spark.sql.catalog.lake.warehouse": env["WAREHOUSE"],
    "spark.sql.catalog.lake.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    "spark.sql.catalog.lake.s3.endpoint": env["S3_ENDPOINT"],
    "spark.sql.catalog.lake.s3.path-style-access": "true",
    "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
    "spark.openlineage.transport.type": "http",
    "spark.openlineage.transport.url": env["LINEAGE_URL"],
    "spark.openlineage.transport.auth.type": "api_key",
    "spark.openlineage.transport.auth.apiKey": env["LINEAGE_API_KEY"],
    "spark.openlineage.namespace": "derive",
}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.derived")
spark.sql("CREATE TABLE lake.derived.totals USING iceberg AS SELECT sum(paid) AS paid FROM lake.shop.raw")
spark.stop()
"""
