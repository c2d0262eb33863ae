"""Real faults fire the alerts that are about them, and one cause is told once."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.chaos.small_disk import ROOT, mount, unmount
from tests.integration.guides import RUNBOOKS, follow
from tests.integration.stack import Stack, wait_until

pytestmark = pytest.mark.process

HERE = "tests/chaos/test_alerts.py"


ROTTEN = """
table: public.rotten
freshness_seconds: 1
upkeep: {files: 2}
alerts: {partition_files: 1, snapshots: 1, metadata_mib: 0.01, compaction_hours: 0.01}
"""
ROTS = ("ManyFilesInPartition", "ManySnapshots", "MuchMetadata", "NotCompacted")
DOUBTFUL = """
apiVersion: v3.2.0
kind: DataContract
id: doubtful
version: 1.0.0
status: active
schema:
  - name: doubtful
    physicalName: public.doubtful
    properties:
      - {name: id, logicalType: integer, primaryKey: true, primaryKeyPosition: 1}
    quality:
      - type: sql
        name: nothing is amiss
        query: SELECT count(*) FROM ${table} WHERE id > 10
        mustBe: 0
"""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack of its own whose alerts aren't patient."""
    running = Stack(Path(tmp_path_factory.mktemp("watched")), "process")
    running.prepare()
    with (running.folder / ".env").open("a", encoding="utf-8") as file:
        file.write(
            "ALERT_LATE_SECONDS=15\nALERT_SILENT_MINUTES=1\nCHECK_SECONDS=20\nMAX_SLOT_WAL_KEEP_SIZE=256MB\n"
            "VERIFIER_PAUSE_SECONDS=5\nSLOT_WAL_WARN_MIB=100\n"
        )
    (running.folder / "pipelines/specs/rotten.yaml").write_text(ROTTEN)
    (running.folder / "quality/contracts/doubtful.yaml").write_text(DOUBTFUL)
    try:
        running.up()
        for service in ("prometheus", "alertmanager", "console"):
            running.start(service)
        running.sql("CREATE TABLE watched (id int PRIMARY KEY)", "INSERT INTO watched SELECT generate_series(1, 500)")
        running.assert_equal("watched")
        yield running
    finally:
        running.make("down")


def told(stack: Stack) -> dict[str, str]:
    """What Alertmanager has: alert and what it is of, to whether it is told or explained by another."""
    url = f"http://127.0.0.1:{stack.setting('ALERTMANAGER_PORT')}/api/v2/alerts"
    found: list[dict[str, Any]] = httpx.get(url, trust_env=False, timeout=30).raise_for_status().json()
    of = {
        each["fingerprint"]: each["labels"].get("table")
        or (each["labels"]["job"] if each["labels"]["alertname"] == "ServiceDown" else "")
        for each in found
    }
    return {
        f"{each['labels']['alertname']} {of[each['fingerprint']]}".strip(): each["status"]["state"] for each in found
    }


def scraped(stack: Stack, query: str) -> bool:
    """Whether Prometheus has an answer."""
    url = f"http://127.0.0.1:{stack.setting('PROMETHEUS_PORT')}/api/v1/query"
    answer = httpx.get(url, params={"query": query}, trust_env=False, timeout=30).raise_for_status().json()
    return bool(answer["data"]["result"])


def test_a_mirror_that_hangs_is_one_page(watched: Stack) -> None:
    wait_until(lambda: told(watched) == {})
    for process in watched.processes("mirror"):
        process.suspend()
    watched.sql("INSERT INTO watched SELECT generate_series(501, 600)")
    wait_until(lambda: {"ServiceDown mirror", "TableLate shop.watched"} <= told(watched).keys())
    # That the table is late follows from it.
    wait_until(lambda: told(watched)["TableLate shop.watched"] == "suppressed")
    assert told(watched)["ServiceDown mirror"] == "active"
    follow(watched, RUNBOOKS / "service-down.md", f"{HERE}::test_a_mirror_that_hangs_is_one_page", SERVICE="mirror")
    watched.assert_equal("watched")
    wait_until(lambda: not {"ServiceDown mirror", "TableLate shop.watched"} & told(watched).keys())


def test_a_connector_that_stands_still_is_told(watched: Stack) -> None:
    watched.connector("stop")
    wait_until(lambda: "ConnectorFailed" in told(watched))
    watched.connector("resume")
    wait_until(lambda: "ConnectorFailed" not in told(watched))
    watched.assert_equal("watched")


def test_data_that_stops_coming_is_told(watched: Stack) -> None:
    # What came before Prometheus looked first isn't known to have come.
    wait_until(lambda: scraped(watched, 'lakehouse_table_records_total{table="shop.watched"}'))
    watched.sql("INSERT INTO watched SELECT generate_series(601, 850)")
    wait_until(lambda: "DataStoppedArriving shop.watched" in told(watched))
    test = "test_data_that_stops_coming_is_told"
    with watched.source() as source:
        (written,) = source.execute("SELECT count(*) FROM watched").fetchone() or (None,)
    printed = follow(watched, RUNBOOKS / "data-stopped.md", f"{HERE}::{test}", TABLE="watched")
    assert f"[('public', {written})]" in printed
    watched.sql("INSERT INTO watched SELECT generate_series(851, 900)")
    wait_until(lambda: "DataStoppedArriving shop.watched" not in told(watched))


def test_rows_that_somebody_took_from_the_lake_are_told(watched: Stack) -> None:
    watched.catalog().load_table("shop.watched").delete("id = 3")
    wait_until(lambda: "LakeDiffers shop.watched" in told(watched), 900)
    test = "test_rows_that_somebody_took_from_the_lake_are_told"
    follow(watched, RUNBOOKS / "lake-differs.md", f"{HERE}::{test}", TABLE="watched")
    wait_until(lambda: "LakeDiffers shop.watched" not in told(watched), 900)


def rows_and_files(stack: Stack, table: str) -> tuple[int, int]:
    catalog = stack.catalog()
    if not catalog.table_exists(table):
        return 0, 0
    found = catalog.load_table(table)
    return found.scan().to_arrow().num_rows, found.inspect.files().num_rows


def test_a_table_that_rots_is_told(watched: Stack) -> None:
    watched.sql("CREATE TABLE rotten (id int PRIMARY KEY)")
    try:
        wait_until_upkeep_hangs(watched)
        wait_until(lambda: {f"{alert} shop.rotten" for alert in ROTS} <= told(watched).keys(), 900)
    finally:
        watched.faults.off("before-compaction")
    follow(watched, RUNBOOKS / "table-rots.md", f"{HERE}::test_a_table_that_rots_is_told", TABLE="rotten")
    wait_until(lambda: "ManyFilesInPartition shop.rotten" not in told(watched))


def wait_until_upkeep_hangs(watched: Stack) -> None:
    """Have whoever would pack the files of `rotten` wait before that, or before those of whichever table it is then."""
    watched.faults.on("before-compaction", "pause")
    for number in range(40):
        watched.sql(f"INSERT INTO rotten VALUES ({number})")
        wait_until(
            lambda now=number: watched.fired("before-compaction") or rows_and_files(watched, "shop.rotten")[0] > now
        )
        if watched.fired("before-compaction"):
            if rows_and_files(watched, "shop.rotten")[1] > 2:
                return
            watched.faults.off("before-compaction")
            watched.faults.on("before-compaction", "pause")
    raise AssertionError("nobody packs files")


def test_a_slot_that_holds_back_much_log_is_told(watched: Stack) -> None:
    # Its session doesn't live to the end of the block.
    with closing(psycopg.connect(watched.endpoints["source_dsn"], autocommit=True)) as forgotten:
        forgotten.execute("BEGIN")
        forgotten.execute("INSERT INTO watched VALUES (1700)")
        row = forgotten.execute("SELECT pg_backend_pid()").fetchone()
        assert row is not None
        watched.sql(
            "CREATE SCHEMA beside",
            "CREATE TABLE beside.much AS SELECT g, repeat(md5(g::text), 20) AS text FROM generate_series(1, 240000) g",
        )
        wait_until(lambda: "SlotHoldsMuchLog" in told(watched))
        warning = watched.report()["capture"]["warning"]
        assert f"the transaction of process {row[0]} (" in warning
        test, page = f"{HERE}::test_a_slot_that_holds_back_much_log_is_told", RUNBOOKS / "wal-grows.md"
        assert "(True,)" in follow(watched, page, test, PROCESS=str(row[0]), LIMIT="512MB")
    watched.sql("INSERT INTO watched SELECT generate_series(1701, 1710)")
    watched.assert_equal("watched")
    wait_until(lambda: "SlotHoldsMuchLog" not in told(watched))


def test_a_broken_promise_is_told(watched: Stack) -> None:
    watched.sql("CREATE TABLE doubtful (id int PRIMARY KEY)", "INSERT INTO doubtful VALUES (1), (11)")
    wait_until(lambda: "PromisesBroken shop.doubtful" in told(watched))
    watched.sql("DELETE FROM doubtful WHERE id = 11")
    watched.assert_equal("doubtful")
    follow(watched, RUNBOOKS / "contract-broken.md", f"{HERE}::test_a_broken_promise_is_told", TABLE="doubtful")
    wait_until(lambda: "PromisesBroken shop.doubtful" not in told(watched))


def test_a_catalog_that_hangs_leaves_lineage_behind(watched: Stack) -> None:
    expected = {"ServiceDown catalog", "LineageBehind", "LookFails"}
    with watched.frozen("catalog"):
        wait_until(lambda: expected <= told(watched).keys(), 900)
    wait_until(lambda: not expected & told(watched).keys())


def test_a_table_that_can_t_be_checked_is_told(watched: Stack) -> None:
    watched.sql("CREATE TABLE IF NOT EXISTS doubtful (id int PRIMARY KEY)", "INSERT INTO doubtful VALUES (3)")
    watched.assert_equal("doubtful")
    catalog = watched.catalog()
    table = catalog.load_table("shop.doubtful")
    for task in table.scan().plan_files():
        table.io.delete(task.file.file_path)
    watched.sql("INSERT INTO doubtful VALUES (2)")
    wait_until(lambda: "CheckFailed shop.doubtful" in told(watched))
    watched.sql("DROP TABLE doubtful")
    catalog.drop_table("shop.doubtful")
    wait_until(lambda: "CheckFailed shop.doubtful" not in told(watched))


def test_a_console_that_hangs_is_told(watched: Stack) -> None:
    with watched.frozen("console"):
        wait_until(lambda: "NoMetrics" in told(watched))
    wait_until(lambda: "NoMetrics" not in told(watched))


@ROOT
def test_a_disk_that_fills_is_told(watched: Stack) -> None:
    state = watched.folder / ".lakehouse/data/console"
    mount(state, 20)
    try:
        (state / "filler").write_bytes(bytes(19 * 2**20))
        wait_until(lambda: "DiskFills" in told(watched), 900)
        (state / "filler").unlink()
        wait_until(lambda: "DiskFills" not in told(watched), 900)
    finally:
        unmount(state, lazily=True)
