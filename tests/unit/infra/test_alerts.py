"""The rules of alerts: each fires when it should, and only then, as Prometheus' own tool sees it."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.metrics.declared import declared
from tests.documents import CHECKOUT

RULES = CHECKOUT / "infra/prometheus/rules/lakehouse.yml"
PROMTOOL = CHECKOUT / ".lakehouse/toolchain/bin/promtool"
LATE, SILENT = "300", "15"
LOADED = yaml.safe_load(RULES.read_text(encoding="utf-8"))
ALERTS: dict[str, Any] = {rule["alert"]: rule for group in LOADED["groups"] for rule in group["rules"]}
TABLE = '{table="shop.orders"}'
ASKED = f"lakehouse_table_freshness_asked_seconds{TABLE}"
# Name to the series under which it fires after half an hour, and those under which it doesn't, both by the minute. The
# metrics are told all the time, so that nothing else fires.
CASES: dict[str, tuple[dict[str, str], dict[str, str], dict[str, str]]] = {
    "TableLate": ({f"lakehouse_table_freshness_seconds{TABLE}": "306x40", ASKED: "5x40"},
                  {f"lakehouse_table_freshness_seconds{TABLE}": "304x40", ASKED: "5x40"}, {"table": "shop.orders"}),
    "DerivedTableLate": ({f"lakehouse_table_current_timestamp_seconds{TABLE}": "0x40", ASKED: "25x40"},
                         {f"lakehouse_table_current_timestamp_seconds{TABLE}": "0+60x40", ASKED: "25x40"},
                         {"table": "shop.orders"}),
    "DataStoppedArriving": ({f"lakehouse_table_records_total{TABLE}": "0+100x10 1000x30"},
                            {f"lakehouse_table_records_total{TABLE}": "0+100x40"}, {"table": "shop.orders"}),
    "TableHeld": ({f"lakehouse_table_held{TABLE}": "1x40"}, {f"lakehouse_table_held{TABLE}": "0x40"},
                  {"table": "shop.orders"}),
    "DatasetBehind": ({'lakehouse_dataset_behind_seconds{table="shop.orders",role="restricted"}': "3700x40"},
                      {'lakehouse_dataset_behind_seconds{table="shop.orders",role="restricted"}': "3500x40"},
                      {"table": "shop.orders", "role": "restricted"}),
    "LakeDiffers": ({f"lakehouse_table_differences{TABLE}": "2x40"}, {f"lakehouse_table_differences{TABLE}": "0x40"},
                    {"table": "shop.orders"}),
    "NothingVerified": ({f"lakehouse_table_verified_timestamp_seconds{TABLE}": "-90000x40"},
                        {f"lakehouse_table_verified_timestamp_seconds{TABLE}": "0x40"}, {"table": "shop.orders"}),
    "DeadLetters": ({'lakehouse_dead_letters{topic="t",reason="not_avro"}': "3x40"},
                    {'lakehouse_dead_letters{topic="t",reason="not_avro"}': "0x40"}, {"topic": "t"}),
    "PromisesBroken": ({'lakehouse_table_promises{table="shop.orders",outcome="broken"}': "1x40"},
                       {'lakehouse_table_promises{table="shop.orders",outcome="kept"}': "9x40"},
                       {"table": "shop.orders", "outcome": "broken"}),
    "CheckFailed": ({f"lakehouse_table_check_failed{TABLE}": "1x40"}, {f"lakehouse_table_check_failed{TABLE}": "0x40"},
                    {"table": "shop.orders"}),
    "ManyFilesInPartition": (
        {f"lakehouse_table_fullest_partition_files{TABLE}": "501x40",
         'lakehouse_table_limit{table="shop.orders",of="partition_files"}': "500x40"},
        {f"lakehouse_table_fullest_partition_files{TABLE}": "500x40",
         'lakehouse_table_limit{table="shop.orders",of="partition_files"}': "500x40"}, {"table": "shop.orders"}),
    "ManySnapshots": ({f"lakehouse_table_snapshots{TABLE}": "1001x40",
                       'lakehouse_table_limit{table="shop.orders",of="snapshots"}': "1000x40"},
                      {f"lakehouse_table_snapshots{TABLE}": "1001x40",
                       'lakehouse_table_limit{table="shop.orders",of="snapshots"}': "5000x40"},
                      {"table": "shop.orders"}),
    "MuchMetadata": ({f"lakehouse_table_metadata_bytes{TABLE}": "11e9x40",
                      'lakehouse_table_limit{table="shop.orders",of="metadata_bytes"}': "1e10x40"},
                     {f"lakehouse_table_metadata_bytes{TABLE}": "9e9x40",
                      'lakehouse_table_limit{table="shop.orders",of="metadata_bytes"}': "1e10x40"},
                     {"table": "shop.orders"}),
    "NotCompacted": (
        {f"lakehouse_table_last_compaction_timestamp_seconds{TABLE}": "-90000x40",
         f"lakehouse_table_compaction_due{TABLE}": "1x40",
         'lakehouse_table_limit{table="shop.orders",of="compaction_seconds"}': "86400x40"},
        {f"lakehouse_table_last_compaction_timestamp_seconds{TABLE}": "-90000x40",
         f"lakehouse_table_compaction_due{TABLE}": "0x40",
         'lakehouse_table_limit{table="shop.orders",of="compaction_seconds"}': "86400x40"}, {"table": "shop.orders"}),
    # A service of a profile that isn't chosen was never up.
    "ServiceDown": ({'up{job="mirror",instance="mirror"}': "1x10 0x30"},
                    {'up{job="streams",instance="streams"}': "0x40"}, {"job": "mirror", "instance": "mirror"}),
    "ConnectorFailed": ({"lakehouse_connector_running": "0x40"}, {"lakehouse_connector_running": "1x40"}, {}),
    "SlotHoldsMuchLog": ({"lakehouse_slot_held_bytes": "3e9x40", "lakehouse_slot_bound_bytes": "4e9x40"},
                         {"lakehouse_slot_held_bytes": "1e9x40", "lakehouse_slot_bound_bytes": "4e9x40"}, {}),
    "DiskFills": ({"lakehouse_disk_free_bytes": "9e9x40", "lakehouse_disk_size_bytes": "1e11x40"},
                  {"lakehouse_disk_free_bytes": "9e10-1e9x40", "lakehouse_disk_size_bytes": "1e11x40"}, {}),
    "HeapFull": ({'lakehouse_jvm_heap_bytes{job="mirror",area="used"}': "99x40",
                  'lakehouse_jvm_heap_bytes{job="mirror",area="max"}': "100x40"},
                 {'lakehouse_jvm_heap_bytes{job="mirror",area="used"}': "50x40",
                  'lakehouse_jvm_heap_bytes{job="mirror",area="max"}': "100x40"}, {"job": "mirror"}),
    "LineageBehind": ({"lineage_looked_timestamp_seconds": "0x40"}, {"lineage_looked_timestamp_seconds": "0+60x40"},
                      {}),
    "LookFails": ({'lakehouse_look_failed{part="catalog"}': "1x40"}, {'lakehouse_look_failed{part="catalog"}': "0x40"},
                  {"part": "catalog"}),
    "NoMetrics": ({}, {}, {}),
}  # fmt: skip


def rendered(folder: Path) -> Path:
    """The rules as Prometheus gets them."""
    text = RULES.read_text(encoding="utf-8").replace("@LATE@", LATE).replace("@SILENT@", SILENT)
    found = folder / "rules.yml"
    found.write_text(text, encoding="utf-8")
    return found


def promtool(*arguments: str, folder: Path) -> str:
    assert PROMTOOL.exists(), "run `python3 -m infra.toolchain install observe`"
    done = subprocess.run([PROMTOOL, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_alert_has_a_case() -> None:
    assert CASES.keys() == ALERTS.keys()


def test_the_rules_can_be_read(tmp_path: Path) -> None:
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", str(rendered(tmp_path)), folder=tmp_path)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_fires_when_it_should_and_only_then(name: str, tmp_path: Path) -> None:
    rendered(tmp_path)
    fires, doesnt, labels = CASES[name]
    told = {} if name == "NoMetrics" else {'lakehouse_looked_timestamp_seconds{part="kafka"}': "0+60x40"}
    quiet = {'lakehouse_looked_timestamp_seconds{part="kafka"}': "0+60x40"}
    rule = ALERTS[name]
    wanted = {"exp_labels": {**rule["labels"], **labels}}
    tests = [
        {"interval": "1m", "input_series": [{"series": s, "values": v} for s, v in {**told, **fires}.items()],
         "alert_rule_test": [{"eval_time": "30m", "alertname": name, "exp_alerts": [wanted]}]},
        {"interval": "1m", "input_series": [{"series": s, "values": v} for s, v in {**quiet, **doesnt}.items()],
         "alert_rule_test": [{"eval_time": "30m", "alertname": name, "exp_alerts": []}]},
    ]  # fmt: skip
    # Annotations are compared as well, so they are asked for once, and held to have nothing unfilled.
    text = _annotated(tmp_path, name, tests[0])
    assert "{{" not in text
    wanted["exp_annotations"] = {"summary": text, "runbook": rule["annotations"]["runbook"]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"rule_files": ["rules.yml"], "tests": tests}), encoding="utf-8")
    promtool("test", "rules", "test.yml", folder=tmp_path)


def _annotated(folder: Path, name: str, test: dict[str, Any]) -> str:
    """The summary that an alert has, of what promtool says when none was expected."""
    asked = {**test, "alert_rule_test": [{**test["alert_rule_test"][0], "exp_alerts": []}]}
    (folder / "asked.yml").write_text(yaml.safe_dump({"rule_files": ["rules.yml"], "tests": [asked]}), encoding="utf-8")
    done = subprocess.run(
        [PROMTOOL, "test", "rules", "asked.yml"], cwd=folder, capture_output=True, text=True, check=False
    )
    found = re.search(r'Annotations:\{runbook="[^"]*", summary="((?:[^"\\]|\\.)*)"\}', done.stdout + done.stderr)
    assert found is not None, f"{name} doesn't fire: {done.stdout + done.stderr}"
    return found[1]


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_how_bad_what_and_what_to_do(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert (CHECKOUT / rule["annotations"]["runbook"]).is_file()
    index = (CHECKOUT / "infra/runbooks" / "README.md").read_text(encoding="utf-8")
    assert f"`{name}`" in index
    guide = (CHECKOUT / "docs/guides/watch.md").read_text(encoding="utf-8")
    assert f"`{name}`" in guide


def test_rules_ask_for_metrics_that_there_are() -> None:
    asked = set(re.findall(r"\b(?:lakehouse|lineage)_\w+", " ".join(rule["expr"] for rule in ALERTS.values())))
    assert len(asked) > 20
    assert asked - declared().keys() == set()
