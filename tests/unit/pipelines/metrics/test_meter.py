"""Metrics exist once they are declared."""

import re
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pipelines.metrics.declared import declared
from pipelines.metrics.meter import CPU, MEMORY, Meter

SERVICES = sorted({service for each in declared().values() for service in each.served_by} - {"lineage"})


def said(meter: Meter) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Series by name and labels, as Prometheus would read them."""
    text = generate_latest(meter.registry).decode()
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name] = {tuple(sorted(sample.labels.items())): sample.value for sample in family.samples}
    return found


@pytest.mark.parametrize("service", SERVICES)
def test_a_process_serves_what_is_declared_for_it_and_nothing_else(service: str) -> None:
    assert said(Meter(service)).keys() == {name for name, each in declared().items() if service in each.served_by}


@pytest.mark.parametrize("name", declared())
def test_names_say_unit_and_kind_as_prometheus_wants_them(name: str) -> None:
    each = declared()[name]
    assert re.fullmatch(r"(lakehouse|lineage)_[a-z0-9_]+", name)
    assert name.endswith("_total") == (each.type == "counter")
    assert ("seconds" in name) == each.unit.startswith("seconds")
    assert ("bytes" in name) == (each.unit == "bytes")
    assert each.meaning.strip().endswith(".")


def test_what_is_not_declared_cant_be_told() -> None:
    meter = Meter("shop")
    with pytest.raises(KeyError):
        meter.add("lakehouse_batches_total")
    with pytest.raises(ValueError, match="label"):
        meter.add("lakehouse_shop_transactions_total", 1, table="a")


def test_series_that_are_gone_are_gone() -> None:
    meter = Meter("console")
    meter.put_all("lakehouse_table_rows", {("a",): 1.0, ("b",): 2.0})
    meter.put_all("lakehouse_table_rows", {("b",): 3.0})
    assert said(meter)["lakehouse_table_rows"] == {(("table", "b"),): 3.0}


def test_a_thousand_tables_take_little() -> None:
    meter, tables = Meter("console"), [f"shop.table_{number}" for number in range(1000)]
    mine = {name: each for name, each in declared().items() if "console" in each.served_by}
    one_label = [name for name, each in mine.items() if each.labels == ("table",) and each.type == "gauge"]
    began = time.process_time()
    for name in one_label:
        meter.put_all(name, {(table,): 1.0 for table in tables})
    text = generate_latest(meter.registry)
    assert len(one_label) > 12
    assert len(text) < 4_000_000
    assert text.count(b"\n") > len(one_label) * 1000
    assert time.process_time() - began < 30


def test_memory_and_cpu_are_of_the_whole_family() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; x = bytearray(90_000_000); time.sleep(60)"])
    meter = Meter("shop")
    try:
        deadline = time.monotonic() + 30
        while said(meter)[MEMORY][()] < 90_000_000 and time.monotonic() < deadline:
            pass
        with_child = said(meter)[MEMORY][()]
    finally:
        child.kill()
        child.wait()
    assert with_child > 90_000_000
    # What a child used still counts once it has ended.
    before = said(meter)[CPU][()]
    assert before > 0
    assert said(meter)[CPU][()] >= before


def test_a_process_answers_on_its_port(tmp_path: Path, unused_port: int) -> None:
    code = (
        "import time; from pipelines.metrics.meter import Meter; from pipelines.metrics.serve import serve;"
        "from pipelines.log import json_log; m = Meter('shop'); m.add('lakehouse_shop_transactions_total', 3);"
        "serve(m, json_log()); print('up', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[4],
        env={"METRICS_PORT": str(unused_port), "BIND_ADDRESS": "127.0.0.1", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        answer = httpx.get(f"http://127.0.0.1:{unused_port}/metrics", trust_env=False)
    finally:
        process.kill()
        process.wait()
    assert "lakehouse_shop_transactions_total 3.0" in answer.text
