"""What is made of the figures: medians, ratios, verdicts, the page and the plots."""

import xml.etree.ElementTree as ET

import pytest

from tests.bench.plan import PLANS
from tests.bench.plots import plots
from tests.bench.report import console_table, markdown
from tests.bench.results import (
    Amplification,
    CatchUp,
    Compaction,
    Live,
    Machine,
    MergePoint,
    Restart,
    Results,
    Run,
    Shape,
    Traffic,
)
from tests.bench.summary import Spread, ratios, spread
from tests.bench.systems import SYSTEMS
from tests.bench.targets import verdicts
from tests.bench.workloads import WORKLOADS

MACHINE = Machine(cores=2, memory_gib=8, processor="a|b", kernel="6", python="3.11", java="17", load_before=0.1)
SHAPE = Shape(data_files=4, delete_files=2, deletes=10, snapshots=3, scan_seconds=1.1, compacted_seconds=1.0)


def run(system: str, seconds: float, number: int = 1, p95: float = 4.0) -> Run:
    return Run(
        system=system, workload="hot-tail", number=number, status="exact",
        catch_up=CatchUp(changes=1000, seconds=seconds, first_visible_seconds=1, cpu_seconds=20, peak_mib=900),
        compaction=Compaction(seconds=5, cpu_seconds=6), backlog_shape=SHAPE, live_shape=SHAPE,
        backlog_amplification=Amplification(written_bytes=10, changed_bytes=5),
        live=Live(changes=100, rate=10, p50=2, p95=p95, max=6, counted=90, unseen=0, cpu_seconds_per_minute=10,
                  cpu_per_million=50 if system == "lakehouse" else 40, peak_mib=1000),
        live_amplification=Amplification(written_bytes=10, changed_bytes=5), restart=Restart(seconds=20, changes=300),
        live_traffic=Traffic(read_bytes=35, sent_bytes=20, changed_bytes=5),
    )  # fmt: skip


def results(*runs: Run, curve: tuple[MergePoint, ...] = ()) -> Results:
    return Results(plan="tiny", began="2026-01-01", minutes=1, seed=1, commit="abc", machine=MACHINE,
                   versions={"a": "1"}, runs=runs, curve=curve)  # fmt: skip


def rate(it: Run) -> float | None:
    return it.catch_up and it.catch_up.rows_per_second


def test_the_median_of_the_runs_and_its_spread() -> None:
    found = results(*(run("lakehouse", seconds, n) for n, seconds in enumerate((10, 20, 50), start=1)))
    assert spread(found, "hot-tail", "lakehouse", rate) == Spread(50.0, 20.0, 100.0, 3)
    assert spread(found, "hot-tail", "append", rate) is None


def test_ratios_are_taken_within_a_run() -> None:
    # The machine was twice as slow in the second run, for both.
    found = results(run("lakehouse", 10), run("append", 5), run("lakehouse", 20, 2), run("append", 10, 2))
    assert ratios(found, "hot-tail", "lakehouse", "append", rate) == 0.5
    assert ratios(found, "hot-tail", "lakehouse", "flink", rate) is None


def test_a_run_that_is_not_exact_counts_for_nothing() -> None:
    wrong = Run(system="tutorial", workload="hot-tail", number=1, status="inexact", why="wide: 5 rows\ndiffer")
    found = results(run("lakehouse", 10), wrong)
    page = markdown(found)
    assert "**tutorial**, run 1: inexact. wide: 5 rows differ" in page
    assert "| tutorial |" not in page.split("## Method")[0]


def test_the_dial_has_this_projects_mirrors_alone() -> None:
    page = markdown(results(run("lakehouse", 10), run("lakehouse-2s", 10, p95=2.5), run("flink", 20)))
    (dial,) = [part for part in page.split("\n\n") if part.startswith("| system | asked s |")]
    assert [line.split(" | ")[:4] for line in dial.splitlines()[2:]] == [
        ["| lakehouse", "10", "2.0", "4.0"], ["| lakehouse-2s", "2", "2.0", "2.5"],
    ]  # fmt: skip
    assert "Freshness against cost" not in markdown(results(run("lakehouse", 10), run("flink", 20)))


def test_verdicts_against_the_best_exact_upserting_peer() -> None:
    runs = (run("lakehouse", 10), run("append", 5), run("flink", 20), run("flink-sql", 1), run("tutorial", 15),
            run("lakehouse-2s", 10))  # fmt: skip
    said = {v.what.removeprefix("hot-tail: "): v for v in verdicts(results(*runs))}
    best = said["catch-up rate, of the best upserting peer's"]
    assert (best.found, best.met) == ("1.50 x", True), "the tutorials' way is the best; Flink without deletes is beside"
    assert said["catch-up rate, of plain append's"].met is False
    assert said["CPU per million live changes with maintenance, of the best upserting peer's"].met is False
    assert said["freshness p95 of lakehouse-2s"].met is True


def test_a_backlog_is_compacted_only_where_its_scan_is_dear() -> None:
    cheap = run("lakehouse", 10)
    assert cheap.readable_seconds == 10
    dear = cheap.model_copy(update={"backlog_shape": SHAPE.model_copy(update={"scan_seconds": 1.21})})
    assert dear.readable_seconds == 15
    assert dear.model_copy(update={"compaction": None}).readable_seconds is None


def test_a_system_that_keeps_its_tables_is_readable_once_it_has() -> None:
    kept = run("lakehouse", 10).model_copy(update={"upkeep": Compaction(seconds=3, cpu_seconds=4)})
    assert kept.readable_seconds == 13
    still_dear = kept.model_copy(update={"backlog_shape": SHAPE.model_copy(update={"scan_seconds": 1.21})})
    assert still_dear.readable_seconds == 13 + 5
    assert still_dear.model_copy(update={"compaction": None}).readable_seconds is None


def test_a_system_whose_tables_were_readable_before_its_upkeep_was_done_by_then() -> None:
    kept = run("lakehouse", 10).model_copy(update={"upkeep": Compaction(seconds=3, cpu_seconds=4)})
    assert kept.model_copy(update={"arrived_shape": SHAPE}).readable_seconds == 10
    dear = SHAPE.model_copy(update={"scan_seconds": 1.21})
    assert kept.model_copy(update={"arrived_shape": dear}).readable_seconds == 13


def test_what_keeps_scans_cheap_is_shared_by_the_changes_of_both_loads() -> None:
    alone = run("flink", 10)
    assert alone.live_cpu_per_million == 40
    kept = alone.model_copy(update={"live_compaction": Compaction(seconds=5, cpu_seconds=6)})
    assert kept.live_cpu_per_million == 40 + 6 / (100 + 300) * 1e6
    itself = kept.model_copy(update={"live_upkeep": Compaction(seconds=2, cpu_seconds=3)})
    assert itself.live_cpu_per_million == 40 + (6 + 3) / (100 + 300) * 1e6


def test_what_went_between_a_system_and_the_store_is_told_of_the_changed_bytes() -> None:
    page = markdown(results(run("lakehouse", 10)))
    (live,) = [part for part in page.split("\n\n") if part.startswith("| system | changes/s | p50 s |")]
    header, _, row = (line.strip("| ").split(" | ") for line in live.splitlines())
    found = dict(zip(header, row, strict=True))
    assert [found[f"bytes {what} / changed"] for what in ("written", "read", "sent")] == ["2.00", "7.00", "4.00"]


def test_a_peer_that_fails_once_is_not_the_one_to_beat() -> None:
    failed = Run(system="flink", workload="hot-tail", number=2, status="failed", why="gone")
    said = verdicts(results(run("lakehouse", 10), run("flink", 20), run("lakehouse", 10, 2), failed))
    assert {v.met for v in said if "best upserting peer's" in v.what} == {None}


def test_growth_of_the_merge() -> None:
    curve = tuple(MergePoint(distribution="hot-tail", rows=rows, batch=10_000, seconds=s, tries=3)
                  for rows, s in ((1_000_000, 2.0), (50_000_000, 3.0)))  # fmt: skip
    (verdict,) = [v for v in verdicts(results(curve=curve)) if v.what.startswith("merge of 10,000 hot-tail")]
    assert (verdict.found, verdict.met) == ("1.50 x for a table 50 x as large", False)


def test_the_page_the_tables_and_the_plots() -> None:
    curve = (MergePoint(distribution="uniform", rows=10, batch=5, seconds=0.5, tries=3),)
    found = results(run("lakehouse", 10), run("append", 5), curve=curve)
    drawn = plots(found)
    page = markdown(found, drawn)
    assert "a\\|b" not in page.split("## Targets")[1]
    assert {"hot-tail-catch-up", "hot-tail-freshness", "merge"} <= drawn.keys()
    assert all(f"({name}.svg)" in page for name in drawn)
    for svg in drawn.values():
        ET.fromstring(svg)
    assert [table.columns[0].header for table in console_table(found)] == ["hot-tail: backlog", "hot-tail: live"]
    assert Results.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_plan_has_a_load_for_every_workload(plan: object) -> None:
    assert set(plan.loads) == set(WORKLOADS)  # type: ignore[attr-defined]


@pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)
def test_a_system_says_what_it_guarantees(system: object) -> None:
    assert system.guarantees  # type: ignore[attr-defined]
    assert system.settings  # type: ignore[attr-defined]
