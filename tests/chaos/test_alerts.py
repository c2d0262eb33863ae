"""Real faults fire the alerts that are about them, and one cause is told once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.stack import Stack, wait_until

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack of its own whose alerts aren't patient."""
    running = Stack(Path(tmp_path_factory.mktemp("watched")), "process")
    running.prepare()
    with (running.folder / ".env").open("a", encoding="utf-8") as file:
        file.write("ALERT_LATE_SECONDS=15\nALERT_SILENT_MINUTES=1\n")
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


def test_a_mirror_that_hangs_is_one_page(watched: Stack) -> None:
    wait_until(lambda: told(watched) == {})
    with watched.frozen("mirror"):
        watched.sql("INSERT INTO watched SELECT generate_series(501, 600)")
        wait_until(lambda: {"ServiceDown mirror", "TableLate shop.watched"} <= told(watched).keys())
        # That the table is late follows from it.
        wait_until(lambda: told(watched)["TableLate shop.watched"] == "suppressed")
        assert told(watched)["ServiceDown mirror"] == "active"
    watched.assert_equal("watched")
    wait_until(lambda: not {"ServiceDown mirror", "TableLate shop.watched"} & told(watched).keys())


def test_a_connector_that_stands_still_is_told(watched: Stack) -> None:
    watched.connector("stop")
    wait_until(lambda: "ConnectorFailed" in told(watched))
    watched.connector("resume")
    wait_until(lambda: "ConnectorFailed" not in told(watched))
    watched.assert_equal("watched")


def test_data_that_stops_coming_is_told(watched: Stack) -> None:
    wait_until(lambda: "DataStoppedArriving shop.watched" in told(watched))
    watched.sql("INSERT INTO watched SELECT generate_series(601, 700)")
    wait_until(lambda: "DataStoppedArriving shop.watched" not in told(watched))


def test_rows_that_somebody_took_from_the_lake_are_told(watched: Stack) -> None:
    watched.catalog().load_table("shop.watched").delete("id = 3")
    wait_until(lambda: "LakeDiffers shop.watched" in told(watched), 900)
    watched.lakehouse("heal", "watched", "--because", "a test")
    wait_until(lambda: "LakeDiffers shop.watched" not in told(watched), 900)
