"""The course that every system runs: backlog, live, kill; and what is looked at afterwards."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import psycopg
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from services.stack.duckdb_session import open_duckdb
from services.stack.lake import open_catalog
from tests.bench.compaction import CompactionFailed, compact
from tests.bench.exact import compare, stage_source
from tests.bench.freshness import Ages, ages, caught_up, percentile
from tests.bench.lake import Arrival, Watcher, Written, as_of, log_positions
from tests.bench.meter import Moved
from tests.bench.plan import Load, Plan
from tests.bench.processes import Measured
from tests.bench.reading import Files, current_files, rows
from tests.bench.results import CHEAP_SCAN, Amplification, CatchUp, Compaction, Live, Restart, Run, Shape, Traffic
from tests.bench.scan import scan_seconds, state_of
from tests.bench.stage import Stage
from tests.bench.systems import Job, System
from tests.bench.topics import Topics
from tests.bench.workloads import WORKLOADS, Workload
from tests.integration.stack import CHECKOUT, PYTHON

POLL_SECONDS = 0.5
KILL_AFTER = 0.25
# A system that keeps its tables is done with that when it has committed nothing for so long; and so long it has.
SETTLED_SECONDS, UPKEEP_SECONDS = 20.0, 300.0
RESTART_FACTOR = 1.5
MEBI = 1 << 20
SEED_STEP = 100


class Fell(Exception):
    """A system ended, or didn't get there in time."""


class Inexact(Exception):
    """The lake differs from its source."""


@dataclass
class Course:
    """All of one benchmark on one stage."""

    stage: Stage
    plan: Plan
    seed: int
    say: Callable[[str], None]
    folder: Path
    _phase: int = field(default=0, init=False)
    _changes: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.catalog: Catalog = open_catalog(self.stage.settings)

    def workload(self, name: str, systems: list[System]) -> Iterator[Run]:
        """Every run of every system, first the backlogs of all, on the same topics, then the rest."""
        workload, load = WORKLOADS[name], self.plan.loads[name]
        topics = Topics(self.stage.settings, workload)
        jobs = {s.name: Job(self.stage, workload, topics, self.folder / f"{s.name}-{name}") for s in systems}
        self._changes = self.write_backlog(workload, load)
        for number in range(1, self.plan.runs + 1):
            # Each run has another order, so that none is always the one after the workload's writing.
            order = systems[(number - 1) % len(systems) :] + systems[: (number - 1) % len(systems)]
            done = {}
            for system in order:
                # What is written live is in the next run's backlog.
                changes = self._changes
                begun = Run(system=system.name, workload=name, number=number, status="exact")
                job = jobs[system.name]
                done[system.name] = self._measure(begun, partial(self._backlog, system, job, changes))
            for system in order:
                run = done[system.name]
                if load.live_rate and run.status == "exact":
                    run = self._measure(run, partial(self._live, system, jobs[system.name], load))
                system.clean(jobs[system.name], self.catalog)
                yield run

    def _measure(self, run: Run, phase: Callable[[Run], Run]) -> Run:
        try:
            return phase(run)
        except Fell as error:
            status, why = "failed", str(error)
        except CompactionFailed as error:
            status, why = "failed", f"its tables can't be compacted: {error}"
        except Inexact as error:
            status, why = "inexact", str(error)
        self.say(f"  {run.system}: {status}: {why}")
        return Run(system=run.system, workload=run.workload, number=run.number, status=status, why=why)

    def write_backlog(self, workload: Workload, load: Load) -> int:
        """Make the workload's tables and write its backlog; how many row changes are in Kafka then."""
        self.say(f"{workload.name}: writing {load.rows:,} rows and {load.changes:,} changes")
        with psycopg.connect(self.stage.dsn, autocommit=True) as source:
            workload.create(source)
            changes = workload.backlog(self.stage.dsn, load.rows, load.changes, self.seed)
            workload.sentinel(source)
        self.stage.published()
        self.say(f"{workload.name}: {changes:,} row changes are in Kafka")
        return changes

    def _backlog(self, system: System, job: Job, changes: int, run: Run) -> Run:
        system.clean(job, self.catalog)
        watcher = Watcher(self.catalog, system.tables(job))
        targets, moved = job.topics.last_positions(), self.stage.meter.moved()
        with self.started(system, job) as process:
            first = self.until_visible(process, watcher, targets)
            seconds, cpu = time.time() - process.started, process.cpu_seconds()
            arrived = watcher.snapshots()
            upkeep = self._kept(system, process, watcher)
            peak = process.peak_bytes()
        found = CatchUp(changes=changes, seconds=seconds, first_visible_seconds=first - process.started,
                        cpu_seconds=cpu, peak_mib=peak / MEBI)  # fmt: skip
        self.say(f"  {system.name}: {found.rows_per_second:,.0f} changes/s, {found.cpu_seconds:,.0f} CPU-s")
        shape = self.look(system, job)
        changed = self._row_bytes(job) * changes
        done = run.model_copy(update={
            "catch_up": found, "upkeep": upkeep, "backlog_shape": shape,
            "arrived_shape": self.look(system, job, arrived) if upkeep is not None else None,
            "backlog_amplification": Amplification(
                written_bytes=watcher.written.total, rewritten_bytes=watcher.written.rewritten_bytes,
                changed_bytes=changed,
            ),
            "backlog_traffic": self._traffic(moved, changed),
        })  # fmt: skip
        self.say(f"  {system.name}: a scan as left costs {shape.scan_ratio:.2f} times a compacted one's")
        if done.arrived_shape is not None:
            self.say(f"  {system.name}: it cost {done.arrived_shape.scan_ratio:.2f} times before its upkeep")
        if system.append_only or shape.scan_ratio <= CHEAP_SCAN:
            return done
        return done.model_copy(update={"compaction": self._compact(system, job)})

    def _live(self, system: System, job: Job, load: Load, run: Run) -> Run:
        with psycopg.connect(self.stage.dsn, autocommit=True) as source:
            job.workload.sentinel(source)
        self.stage.published()
        watcher = Watcher(self.catalog, system.tables(job))
        targets, moved = job.topics.last_positions(), self.stage.meter.moved()
        with self.started(system, job) as process:
            self.until_visible(process, watcher, targets)
            warm_up = self.warmed_up(process, job.workload, load.live_rate, load.warm_up_seconds)
            watcher.look()
            watcher.written = Written()
            live, _ = self._under_load(process, watcher, job, load.live_rate, load.live_seconds)
            live, written = live.model_copy(update={"warm_up": warm_up}), replace(watcher.written)
            self.say(f"  {system.name}: fresh within {live.p50:.1f} s (p95 {live.p95:.1f} s), "
                     f"{live.cpu_seconds_per_minute:.0f} CPU-s a minute")  # fmt: skip
            restart = None
            if load.restart_seconds and not system.append_only:
                restart, upkeep = self._killed(process, watcher, system, job, load, live)
                self.say(f"  {system.name}: after kill -9 as fresh as before within {restart.seconds} s")
            else:
                upkeep = self._kept(system, process, watcher)
        mean = self._row_bytes(job)
        done = run.model_copy(update={
            "live": live, "restart": restart, "live_upkeep": upkeep,
            "live_amplification": Amplification(
                written_bytes=written.total, rewritten_bytes=written.rewritten_bytes, changed_bytes=mean * live.changes
            ),
        })  # fmt: skip
        traffic, shape = self._traffic(moved, mean * done.live_changes), self.look(system, job)
        kept = None
        if shape.scan_ratio > CHEAP_SCAN and not system.append_only:
            kept = self._compact(system, job)
        return done.model_copy(update={"live_traffic": traffic, "live_shape": shape, "live_compaction": kept})

    def _kept(self, system: System, process: Measured, watcher: Watcher) -> Compaction | None:
        """What a system that keeps its tables does to them from now on, where all is visible, until it has been still
        for long; None if it does nothing.
        """
        if not system.keeps_tables:
            return None
        began, cpu_before = time.monotonic(), process.cpu_seconds()
        last, cpu, seen = began, cpu_before, watcher.written.snapshots
        while (now := time.monotonic()) - last < SETTLED_SECONDS and now - began < UPKEEP_SECONDS:
            self.must_run(process)
            watcher.look()
            if watcher.written.snapshots > seen:
                last, cpu, seen = time.monotonic(), process.cpu_seconds(), watcher.written.snapshots
            time.sleep(POLL_SECONDS)
        if last == began:
            return None
        done = Compaction(seconds=last - began, cpu_seconds=cpu - cpu_before)
        self.say(f"  {system.name}: its own upkeep took {done.seconds:.1f} s, {done.cpu_seconds:.0f} CPU-s")
        return done

    def _compact(self, system: System, job: Job) -> Compaction:
        compacted = compact(job, system.tables(job), self.folder / "compaction", self.plan.patience)
        self.say(f"  {system.name}: compacted in {compacted.seconds:.1f} s, {compacted.cpu_seconds:.0f} CPU-s")
        return compacted

    def warmed_up(self, process: Measured, workload: Workload, rate: float, seconds: float) -> int:
        """Have the system under a load that isn't looked at; how many changes it wrote, all of which Kafka has."""
        if not seconds:
            return 0
        with self.writer(workload, rate, seconds) as writer:
            while writer.poll() is None:
                self.must_run(process)
                time.sleep(POLL_SECONDS)
            written, _ = self.told(writer)
        self.stage.published()
        return written

    def _under_load(
        self, process: Measured, watcher: Watcher, job: Job, rate: float, seconds: float
    ) -> tuple[Live, Ages]:
        starts, beyond = job.topics.ends(), self.log_position()
        process.forget_peak()
        cpu, began = process.cpu_seconds(), time.time()
        arrival = Arrival()
        with self.writer(job.workload, rate, seconds) as writer:
            while writer.poll() is None:
                self.must_run(process)
                arrival.look(watcher, beyond)
                time.sleep(POLL_SECONDS)
            written, lasted = self.told(writer)
        ended, cpu_then = time.time(), process.cpu_seconds()
        found = self.the_rest(process, watcher, job, arrival, starts, beyond)
        ages_ = found.seconds
        live = Live(
            changes=written, rate=written / lasted, p50=percentile(ages_, 0.5), p95=percentile(ages_, 0.95),
            max=max(ages_), counted=len(ages_), unseen=found.unseen,
            cpu_seconds_per_minute=(cpu_then - cpu) / (ended - began) * 60,
            cpu_per_million=(process.cpu_seconds() - cpu) / written * 1e6, peak_mib=process.peak_bytes() / MEBI,
        )  # fmt: skip
        return live, found

    def _killed(
        self, process: Measured, watcher: Watcher, system: System, job: Job, load: Load, before: Live
    ) -> tuple[Restart, Compaction | None]:
        starts, beyond = job.topics.ends(), self.log_position()
        arrival, killed = Arrival(), 0.0
        current, began = process, time.monotonic()
        try:
            with self.writer(job.workload, load.live_rate, load.restart_seconds) as writer:
                while writer.poll() is None:
                    if not killed and time.monotonic() - began > KILL_AFTER * load.restart_seconds:
                        killed = time.time()
                        current.kill()
                        current = self._start(system, job)
                    self.must_run(current)
                    arrival.look(watcher, beyond)
                    time.sleep(POLL_SECONDS)
                written, _ = self.told(writer)
            found = self.the_rest(current, watcher, job, arrival, starts, beyond)
            upkeep = self._kept(system, current, watcher)
        finally:
            if current is not process:
                current.stop()
        at = caught_up(found, killed, RESTART_FACTOR * before.p95)
        # At the latest when nothing was written any more and all was visible.
        return Restart(seconds=round((at or max(found.visible)) - killed, 2), changes=written), upkeep

    def the_rest(self, process: Measured, watcher: Watcher, job: Job, arrival: Arrival, starts: dict[tuple[str, int],
                  int], beyond: int) -> Ages:  # fmt: skip
        """Wait for what was written last, and count."""
        with psycopg.connect(self.stage.dsn, autocommit=True) as source:
            job.workload.sentinel(source)
        self._look_while_publishing(watcher, arrival, beyond)
        targets = job.topics.last_positions()
        deadline = time.monotonic() + self.plan.patience
        while any(wanted - arrival.positions.get(table, {}).keys() for table, wanted in targets.items()):
            self.must_run(process)
            if time.monotonic() > deadline:
                raise Fell(f"after {self.plan.patience:.0f} s the last changes aren't visible")
            arrival.look(watcher, beyond)
            time.sleep(POLL_SECONDS)
        return ages(job.topics.changes(starts, job.topics.ends()), arrival.positions)

    def _look_while_publishing(self, watcher: Watcher, arrival: Arrival, beyond: int) -> None:
        arrival.look(watcher, beyond)
        self.stage.published()

    def until_visible(self, process: Measured, watcher: Watcher, targets: dict[str, set[int]]) -> float:
        """Return once every target is visible, with when the first commit was; raises Fell."""
        left = {table: set(wanted) for table, wanted in targets.items()}
        first, deadline = 0.0, time.monotonic() + self.plan.patience
        while any(left.values()):
            self.must_run(process)
            if time.monotonic() > deadline:
                raise Fell(f"it isn't caught up after {self.plan.patience:.0f} s\n{process.tail()}")
            for table, (loaded, files) in watcher.look().items():
                first = first or time.time()
                if left.get(table):
                    left[table] -= set(log_positions(loaded, files, min(left[table]) - 1))
            time.sleep(POLL_SECONDS)
        return first

    def must_run(self, process: Measured) -> None:
        """Raise Fell where a system has ended or given up."""
        if not process.working:
            raise Fell(f"it ended, or gave up\n{process.tail()}")

    def _start(self, system: System, job: Job) -> Measured:
        launch = system.launch(job)
        return Measured(
            launch.command, launch.cwd, launch.environment, self.folder / f"{job.folder.name}.log", launch.gives_up
        )

    @contextmanager
    def started(self, system: System, job: Job) -> Iterator[Measured]:
        """The system at work, until the block ends."""
        with self._start(system, job) as process:
            yield process

    @contextmanager
    def writer(self, workload: Workload, rate: float, seconds: float) -> Iterator[subprocess.Popen[str]]:
        """The workload's live load, in a process of its own, until the block ends."""
        self._phase += 1
        command = [PYTHON, "-m", "tests.bench.writer", workload.name, "--rate", str(rate), "--seconds", str(seconds),
                   "--seed", str(self.seed * SEED_STEP + self._phase)]  # fmt: skip
        environment = {**os.environ, "BENCH_DSN": self.stage.dsn}
        process = subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait(60)
        if process.returncode != 0:
            raise Fell("the workload's writer failed")

    def told(self, writer: subprocess.Popen[str]) -> tuple[int, float]:
        """How many rows the writer changed, in how many seconds."""
        told = writer.communicate()[0].split()
        if len(told) != 2:
            raise Fell("the workload's writer failed")
        self._changes += int(told[0])
        return int(told[0]), float(told[1])

    def log_position(self) -> int:
        """Where the source's log stands."""
        with psycopg.connect(self.stage.dsn, autocommit=True) as source:
            row = source.execute("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint").fetchone()
        # The next record begins where this one ends.
        return int(row[0]) - 1 if row else 0

    def _traffic(self, before: Moved, changed: float) -> Traffic:
        """Since ``before``, of a system that has been stopped."""
        moved = self.stage.meter.moved().since(before)
        return Traffic(read_bytes=moved.read, sent_bytes=moved.sent, changed_bytes=changed)

    def _row_bytes(self, job: Job) -> float:
        with psycopg.connect(self.stage.dsn, autocommit=True) as source:
            sizes = job.workload.row_bytes(source)
        return sum(sizes.values()) / len(sizes)

    def look(self, system: System, job: Job, at: Mapping[str, int] | None = None) -> Shape:
        """Compare every table with its source, and see what reading it costs, with its newest snapshot or that of
        ``at``. Raises Inexact.
        """
        shapes, wrong = [], []
        watcher = Watcher(self.catalog, system.tables(job))
        placeholder = self.stage.settings.unavailable_value if system.append_only else None
        with (
            TemporaryDirectory(prefix="bench-", dir=self.folder) as scratch,
            psycopg.connect(self.stage.dsn, autocommit=True) as source,
        ):
            duck = open_duckdb(self.stage.settings, Path(scratch), "2GB")
            for name, key in job.workload.keys.items():
                columns = stage_source(source, duck, job.workload.schema, name, Path(scratch))
                table = watcher.load(name)
                if table is None:
                    wrong.append(f"{name}: there is no table")
                    continue
                table = as_of(table, at[name]) if at else table
                there = {field.name for field in table.schema().fields}
                names = [column.name for column in columns if column.name in there]
                wanted = [*names, *(("_op", "_kafka_offset") if system.append_only else ())]
                files = current_files(table)
                state = state_of(rows(duck, table, files, wanted), key, system.append_only)
                compared = compare(duck, columns, key, state, placeholder)
                if system.beside and compared.equal_but_for_deletes:
                    self.say(f"  {system.name}: {name}: {compared}")
                elif not compared.equal:
                    wrong.append(f"{name}: {compared}")
                    continue
                if not compared.rows:
                    continue
                shapes.append(self._shape(duck, table, files, names, key, system.append_only))
            duck.close()
        if wrong:
            raise Inexact("; ".join(wrong))
        return Shape.of(shapes)

    def shape_at(self, system: System, job: Job, at: Mapping[str, int]) -> Shape:
        """What reading its tables costs as they were with these snapshots, without comparing them. ``at``: source table
        to snapshot.
        """
        watcher, shapes = Watcher(self.catalog, system.tables(job)), []
        with TemporaryDirectory(prefix="bench-", dir=self.folder) as scratch:
            duck = open_duckdb(self.stage.settings, Path(scratch), "2GB")
            for name, snapshot in at.items():
                newest = watcher.load(name)
                if newest is None:
                    raise Inexact(f"{name}: there is no table")
                table = as_of(newest, snapshot)
                files = current_files(table)
                if files.data:
                    names = [field.name for field in table.schema().fields if not field.name.startswith("_")]
                    key = job.workload.keys[name]
                    shapes.append(self._shape(duck, table, files, names, key, system.append_only))
            duck.close()
        return Shape.of(shapes)

    def _shape(
        self, duck: duckdb.DuckDBPyConnection, table: Table, files: Files, names: list[str], key: tuple[str, ...],
        append_only: bool,
    ) -> Shape:  # fmt: skip
        left, fresh = scan_seconds(duck, self.catalog, self.stage.settings, table, names, key, append_only)
        return Shape(
            data_files=len(files.data), delete_files=len(files.positions) + len(files.equality),
            deletes=files.deletes, snapshots=len(table.snapshots()), compacted_seconds=fresh, scan_seconds=left,
        )  # fmt: skip
