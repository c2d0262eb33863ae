"""`python -m tests.bench.soak`: this mirror under a steady load for long, while all upkeep is asked for every minute.

Told is whether the lake stayed as fresh as was asked for, at which price, whether any commit failed or had to be tried
again on either side, what a scan cost at any moment of it, and whether the driver's memory grew: what it has, and what
lives in its JVM after a full collection. At its end source and lake are compared row by row. Exit code 1 if one of
these isn't as it should be.
"""

import json
import shutil
import signal
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import linear_regression, median, stdev
from tempfile import mkdtemp
from typing import Annotated, Any

import typer
from rich.console import Console

from pipelines.maintenance.plan import RequestKind
from services.operations.maintain.requests import ask
from services.stack.errors import LakehouseError
from tests.bench.course import MEBI, POLL_SECONDS, Course, Inexact
from tests.bench.freshness import Ages, percentile
from tests.bench.lake import Arrival, Watcher
from tests.bench.plan import Load, Plan
from tests.bench.processes import Measured
from tests.bench.runner import known
from tests.bench.scan import NAMESPACE
from tests.bench.stage import Stage
from tests.bench.systems import SYSTEMS, Job, System
from tests.bench.systems.lakehouse import Lakehouse
from tests.bench.topics import Topics
from tests.bench.workloads import WORKLOADS

OURS = [name for name, system in SYSTEMS.items() if isinstance(system, Lakehouse)]
SAMPLE_SECONDS, HEAP_SECONDS, ASK_TIMEOUT = 5.0, 300.0, 600.0
# Of the samples of memory, what counts as warming up.
WARM_UP = 1 / 3
MOST_SCAN = 1.2
# Of what lives in the JVM: by so much it may differ from one full collection to another.
LIVE_NOISE = 1.1
# Of the classes whose objects these are, so many are told.
MOST_CLASSES = 6
# What the mirror's log says of a commit or an upkeep that didn't come off at once.
TROUBLE = ("table_held", "task_failed", "maintenance_failed", "stopped_by_error", "Retrying task after failure")
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
out = Console(highlight=False, soft_wrap=True)


@dataclass
class Soak:
    """What was seen. ``memory``: seconds since the beginning, and MiB of the driver with all that it started; ``heap``:
    the same of what lives in its JVM; ``native``: and of what it has beside its heap; ``scans``: seconds, and what a
    scan costs as a multiple of the same rows compacted; ``read``: of each of these, how many files of data and of
    deletes it read, and how many rows they delete; ``asks``: how often all upkeep was asked for, and
    ``asked``: tasks of it that were done.
    """

    freshness_asked: float
    memory: list[tuple[float, float]] = field(default_factory=list)
    heap: list[tuple[float, float]] = field(default_factory=list)
    native: list[tuple[float, float]] = field(default_factory=list)
    scans: list[tuple[float, float]] = field(default_factory=list)
    read: list[tuple[int, int, int]] = field(default_factory=list)
    asks: int = 0
    asked: int = 0
    trouble: list[str] = field(default_factory=list)
    changes: int = 0
    rate: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    cpu_per_million: float = 0.0
    unseen: int = 0
    inexact: str | None = None

    @property
    def growth(self) -> tuple[float, float]:
        """By how many MiB memory grew from the end of its warming up to the end, by a straight line, and how far from
        that line the samples are (standard deviation).
        """
        settled = self.memory[int(len(self.memory) * WARM_UP) :]
        times, sizes = [at for at, _ in settled], [size for _, size in settled]
        line = linear_regression(times, sizes)
        noise = stdev(size - (line.slope * at + line.intercept) for at, size in settled)
        return line.slope * (times[-1] - times[0]), noise

    def verdicts(self) -> dict[str, bool]:
        """What was to be shown, and whether it was."""
        grown, noise = self.growth
        costs = [cost for _, cost in self.scans]
        seen = f"{max(costs):.2f}, median {median(costs):.2f}" if costs else "none was timed"
        living, native = _settled(self.heap), _settled(self.native)
        return {
            f"fresh within {self.freshness_asked:g} s for 95 % of the changes: {self.p95:.1f} s (p50 {self.p50:.1f} s)":
                self.p95 <= self.freshness_asked and not self.unseen,
            f"no commit failed or was tried again, {self.asked} tasks of upkeep: {len(self.trouble)} did":
                not self.trouble and (self.asked > 0 or not self.asks),
            f"a scan costs at most {MOST_SCAN} times a compacted one at any moment: {seen}":
                bool(costs) and max(costs) <= MOST_SCAN,
            f"memory is flat: {grown:+.0f} MiB, noise {noise:.0f} MiB": grown <= 2 * noise,
            f"what lives in the JVM doesn't grow: {_told(living)}": _flat(living),
            f"what the JVM has beside its heap doesn't grow: {_told(native)}": _flat(native),
            f"source and lake are equal: {self.inexact or 'they are'}": self.inexact is None,
        }  # fmt: skip


@app.command()
def soak(
    minutes: Annotated[float, typer.Option(min=1)] = 20,
    rate: Annotated[float, typer.Option(help="Row changes a second.")] = 500,
    rows_before: Annotated[int, typer.Option("--rows", help="Rows of the table at first.")] = 200_000,
    workload: Annotated[str, typer.Option(help=f"Of {', '.join(WORKLOADS)}.")] = "hot-tail",
    system: Annotated[str, typer.Option(help=f"Of {', '.join(OURS)}.")] = "lakehouse",
    warm_up: Annotated[float, typer.Option(min=0, help="Seconds of the load that are left out.")] = 45,
    ask_every: Annotated[float, typer.Option(help="Seconds between two requests for all upkeep.")] = 60,
    scan_every: Annotated[
        float, typer.Option(help="Seconds between two moments, a scan of whose tables is timed after the load.")
    ] = 120,
    seed: Annotated[int, typer.Option()] = 1,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Run it, on a stack of its own."""
    known("workload", [workload], WORKLOADS)
    known("system", [system], OURS)
    began = time.monotonic()

    def say(text: str) -> None:
        if not as_json:
            out.print(f"{time.monotonic() - began:7.1f} s  {text}", markup=False)

    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    folder = Path(mkdtemp(prefix="lakehouse-soak-"))
    stage = Stage(folder)
    plan = Plan("soak", {workload: Load(rows_before, 0)}, runs=1, patience=1200)
    try:
        stage.set_up()
        course = Course(stage, plan, seed, say, folder / "bench")
        course.folder.mkdir()
        found = _soak(course, system, workload, rate, warm_up, minutes * 60, ask_every, scan_every)
    finally:
        stage.make("down")
    shutil.rmtree(folder)
    verdicts = found.verdicts()
    say(f"{found.changes:,} changes, {found.rate:,.0f} a second, {found.cpu_per_million:,.0f} CPU-s a million")
    if as_json:
        out.print_json(json.dumps({**asdict(found), "verdicts": verdicts}))
    for line in [*(f"{'met' if met else 'NOT MET':>8}  {what}" for what, met in verdicts.items()), *found.trouble]:
        say(line)
    if not all(verdicts.values()):
        raise typer.Exit(1)


def _soak(
    course: Course, name: str, workload: str, rate: float, warm_up: float, seconds: float, ask_every: float,
    scan_every: float,
) -> Soak:  # fmt: skip
    system, stage = SYSTEMS[name], course.stage
    job = Job(stage, WORKLOADS[workload], Topics(stage.settings, WORKLOADS[workload]), course.folder / name)
    found = Soak(system.freshness or 0.0)
    course.write_backlog(job.workload, course.plan.loads[workload])
    watcher = Watcher(course.catalog, system.tables(job))
    moments: list[Moment] = []
    with course.started(system, job) as process, ThreadPoolExecutor(2) as beside:
        course.until_visible(process, watcher, job.topics.last_positions())
        course.warmed_up(process, job.workload, rate, warm_up)
        starts, beyond, arrival = job.topics.ends(), course.log_position(), Arrival()
        asker, keeper, collector = Repeated(ask_every), Repeated(scan_every), Repeated(HEAP_SECONDS)
        sampled, since, cpu = 0.0, time.monotonic(), process.cpu_seconds()
        with course.writer(job.workload, rate, seconds) as writer:
            while writer.poll() is None:
                course.must_run(process)
                arrival.look(watcher, beyond)
                passed = time.monotonic() - since
                if passed - sampled >= SAMPLE_SECONDS:
                    sampled = passed
                    found.memory.append((round(passed, 1), round(process.resident_bytes() / MEBI, 1)))
                asker.maybe(lambda: beside.submit(_ask, course, found))
                keeper.maybe(lambda at=passed: beside.submit(_keep, watcher, moments, at))
                collector.maybe(lambda at=passed: beside.submit(_collect, course, process, found, at))
                time.sleep(POLL_SECONDS)
            found.changes, lasted = course.told(writer)
        found.rate = found.changes / lasted
        ages: Ages = course.the_rest(process, watcher, job, arrival, starts, beyond)
        found.cpu_per_million = (process.cpu_seconds() - cpu) / found.changes * 1e6
        for repeated in (asker, keeper, collector):
            repeated.finish()
    found.p50, found.p95 = percentile(ages.seconds, 0.5), percentile(ages.seconds, 0.95)
    found.unseen = ages.unseen
    found.trouble += _trouble(process)
    try:
        course.look(system, job)
    except Inexact as error:
        found.inexact = str(error)
    for moment in moments:
        _scan(course, system, job, found, moment)
    return found


def _settled(sizes: list[tuple[float, float]]) -> list[float]:
    return [size for _, size in sizes[int(len(sizes) * WARM_UP) :]]


def _told(sizes: list[float]) -> str:
    unknown = "" if len(sizes) > 1 else f", which is too short a load to tell (a look every {HEAP_SECONDS:.0f} s)"
    return f"{', '.join(f'{size:.0f}' for size in sizes) or 'no'} MiB{unknown}"


def _flat(sizes: list[float]) -> bool:
    return len(sizes) > 1 and sizes[-1] <= LIVE_NOISE * sizes[0]


@dataclass(frozen=True)
class Moment:
    """So many seconds after the beginning each source's table had that snapshot in the lake."""

    at: float
    snapshots: dict[str, int]


class Repeated:
    """Something that is begun every so many seconds, unless the last one hasn't ended."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._last = seconds, time.monotonic()
        self._running: Future[Any] | None = None

    def maybe(self, begin: Any) -> None:
        """Begin, if it is time. Raises what the last one raised."""
        if time.monotonic() - self._last >= self._seconds and (self._running is None or self._running.done()):
            self.finish()
            self._last, self._running = time.monotonic(), begin()

    def finish(self) -> None:
        """Wait for the last one. Raises what it raised."""
        if self._running is not None:
            self._running.result()
            self._running = None


def _ask(course: Course, found: Soak) -> None:
    found.asks += 1
    try:
        answers = ask(course.catalog, _names(course), RequestKind.EVERYTHING, ASK_TIMEOUT)
    except LakehouseError as error:
        found.trouble.append(str(error))
        return
    found.asked += sum(answer.error is None for answer in answers)
    found.trouble += [f"{answer.table}: {answer.task}: {answer.error}" for answer in answers if answer.error]


def _names(course: Course) -> list[str]:
    return [".".join(name) for namespace in course.catalog.list_namespaces()
            if namespace[0] not in ("lakehouse", NAMESPACE)
            for name in course.catalog.list_tables(namespace)]  # fmt: skip


def _keep(watcher: Watcher, moments: list[Moment], at: float) -> None:
    """Keep what a reader would read now, however long the load lasts."""
    snapshots = {}
    for name in watcher.tables:
        table = watcher.load(name)
        if table is not None and (snapshot := table.metadata.current_snapshot_id) is not None:
            table.manage_snapshots().create_tag(snapshot, f"soak-{at:.0f}").commit()
            snapshots[name] = snapshot
    moments.append(Moment(at, snapshots))


def _scan(course: Course, system: System, job: Job, found: Soak, moment: Moment) -> None:
    shape = course.shape_at(system, job, moment.snapshots)
    if not shape.data_files:
        return
    found.scans.append((round(moment.at, 1), round(shape.scan_ratio, 3)))
    found.read.append((shape.data_files, shape.delete_files, shape.deletes))
    course.say(
        f"  a scan as of {moment.at:,.0f} s costs {shape.scan_ratio:.2f} times a compacted one: "
        f"{shape.data_files} files, {shape.delete_files} of deletes, {shape.deletes:,} rows deleted"
    )


def _collect(course: Course, process: Measured, found: Soak, at: float) -> None:
    """Note what is left in the driver's JVM after a full collection, and what it has beside its heap."""
    living = process.living()
    found.heap.append((round(at, 1), round(living.total() / MEBI, 1)))
    most = ", ".join(f"{size / MEBI:.0f} MiB {name}" for name, size in living.most_common(MOST_CLASSES))
    course.say(f"  after {at:,.0f} s {living.total() / MEBI:.0f} MiB live in its JVM: {most}")
    found.native.append((round(at, 1), round(process.native_bytes() / MEBI, 1)))


def _trouble(process: Measured) -> list[str]:
    said = process.log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line[:300] for line in said if any(word in line for word in TROUBLE)]


if __name__ == "__main__":
    app(prog_name="python -m tests.bench.soak")
