"""Merge time of this mirror against the size of the table and of the batch."""

import json
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from pipelines.failpoints import arm, disarm, fired
from tests.bench.course import Course
from tests.bench.lake import Watcher
from tests.bench.processes import Measured
from tests.bench.results import MergePoint
from tests.bench.systems import SYSTEMS, Job
from tests.bench.topics import Topics
from tests.bench.workloads import CURVE
from tests.bench.workloads.base import Step
from tests.bench.workloads.wide import Distribution
from tests.integration.stack import wait_until

WARM_UP, TRIES = 2, 5
DISTRIBUTIONS: tuple[Distribution, ...] = ("hot-tail", "uniform")
# A batch is planned, and its work hasn't begun: what is written while the mirror waits here is in the next one, whole.
GATE = "before-batch"


def curve(course: Course) -> list[MergePoint]:
    """Points of the plan's sizes: one table that grows, and batches of updates while nothing else is written."""
    system, stage = SYSTEMS["lakehouse"], course.stage
    job = Job(stage, CURVE, Topics(stage.settings, CURVE), course.folder / "curve")
    system.clean(job, course.catalog)
    with psycopg.connect(stage.dsn, autocommit=True) as source:
        CURVE.create(source)
    points: list[MergePoint] = []
    with course.started(system, job) as process:
        there = 0
        for rows in course.plan.curve_rows:
            _grow(course, job, process, rows - there)
            there = rows
            for distribution in DISTRIBUTIONS:
                for batch in course.plan.curve_batches:
                    points.append(_point(course, job, process, distribution, rows, batch))
                    course.say(
                        f"  merge of {batch:,} {distribution} changes into {rows:,} rows: {points[-1].seconds:.2f} s"
                    )
    system.clean(job, course.catalog)
    return points


def _grow(course: Course, job: Job, process: Measured, rows: int) -> None:
    course.say(f"curve: {rows:,} more rows")
    CURVE.backlog(course.stage.dsn, rows, 0, course.seed)
    with psycopg.connect(course.stage.dsn, autocommit=True) as source:
        CURVE.sentinel(source)
    course.stage.published()
    course.until_visible(
        process, Watcher(course.catalog, SYSTEMS["lakehouse"].tables(job)), job.topics.last_positions()
    )


def _point(
    course: Course, job: Job, process: Measured, distribution: Distribution, rows: int, batch: int
) -> MergePoint:
    chance = random.Random(f"{course.seed}/{distribution}/{rows}/{batch}")
    seconds = []
    changed = 0
    for number in range(WARM_UP + TRIES):
        step = CURVE.updates(distribution, chance, rows, batch)
        changed = len(step.updates)
        seconds.append(_merge(course, job, process, partial(_apply, step, number), changed))
    return MergePoint(
        distribution=distribution, rows=rows, batch=changed, seconds=median(seconds[WARM_UP:]), tries=TRIES
    )


def _merge(
    course: Course, job: Job, process: Measured, write: Callable[[psycopg.Connection[Any]], object], changes: int
) -> float:
    """Seconds of the batch that has exactly these changes."""
    gates = job.folder / "failpoints"
    seen = len(_batches(process.log))
    arm(gates, GATE, "pause")
    wait_until(lambda: fired(gates, GATE))
    with psycopg.connect(course.stage.dsn, autocommit=True) as source:
        write(source)
    course.stage.published()
    disarm(gates, GATE)
    topic = job.topics.name(CURVE.table)
    deadline = time.monotonic() + course.plan.patience
    while time.monotonic() < deadline:
        merged = sum(batch["rows"].get(topic, 0) for batch in _batches(process.log)[seen:])
        if merged >= changes:
            return float(sum(b["ms"] for b in _batches(process.log)[seen:] if b["rows"].get(topic)) / 1000)
        time.sleep(0.1)
    raise TimeoutError(f"a batch of {changes} changes took longer than {course.plan.patience:.0f} s")


def _apply(step: Step, stamp: int, source: psycopg.Connection[Any]) -> None:
    CURVE.apply(source, step, stamp)


def _batches(log: Path) -> list[dict[str, Any]]:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{") and '"event": "batch"' in line]
