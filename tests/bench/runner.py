"""`make bench`: the systems one after another on the same topics; JSON, plots and a page of what was measured."""

import shutil
import signal
import sys
import time
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated

import typer
from rich.console import Console

from tests.bench.course import Course
from tests.bench.curves import curve
from tests.bench.machine import commit, machine, versions
from tests.bench.plan import PLANS, QUICK, QUICK_SYSTEMS
from tests.bench.report import console_table, page
from tests.bench.results import MergePoint, Results, Run
from tests.bench.stage import Stage
from tests.bench.systems import SYSTEMS
from tests.bench.targets import verdicts
from tests.bench.workloads import WORKLOADS
from tests.integration.stack import CHECKOUT

# Of a log that nobody looks at as a terminal.
WIDTH = 140
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else WIDTH)


@app.command()
def run(
    size: Annotated[str, typer.Option(help=f"How long: {', '.join(PLANS)}.")] = QUICK.name,
    systems: Annotated[str, typer.Option(help=f"Of {', '.join(SYSTEMS)}; all if not given.")] = "",
    workloads: Annotated[str, typer.Option(help=f"Of {', '.join(WORKLOADS)}.")] = "",
    runs: Annotated[int | None, typer.Option(min=1, help="How often each system runs.")] = None,
    seed: Annotated[int, typer.Option(help="Decides what is written.")] = 1,
    curves: Annotated[
        bool | None,
        typer.Option(
            help="Merge time by size of table and batch; as a rule if the size is full and no workload named."
        ),
    ] = None,
    keep: Annotated[bool, typer.Option(help="Keep the stack's folder.")] = False,
) -> None:
    """Measure, print the comparison, write it to .lakehouse/bench. Exit code 1 if this mirror isn't exact."""
    plan = PLANS[known("size", [size], PLANS)[0]]
    named = known("systems", _split(systems), SYSTEMS) or (QUICK_SYSTEMS if plan is QUICK else list(SYSTEMS))
    plan = plan.narrowed(known("workloads", _split(workloads), WORKLOADS), runs)
    began, clock = datetime.now(UTC), time.monotonic()

    def say(text: str) -> None:
        out.print(f"{time.monotonic() - clock:7.1f} s  {text}", markup=False)

    # As when it is interrupted: what was started is stopped.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    absent = {name: why for name in named if (why := SYSTEMS[name].missing()) is not None}
    for name, why in absent.items():
        say(f"{name} can't be installed: {why}")
    chosen = [SYSTEMS[name] for name in named if name not in absent]
    found: list[Run] = [
        Run(system=name, workload=workload, number=1, status="not installed", why=why)
        for name, why in absent.items()
        for workload in plan.loads
    ]
    points: list[MergePoint] = []
    # What is measured is copied when the stage is set up.
    before, measured = machine(), commit()
    folder = Path(mkdtemp(prefix="lakehouse-bench-"))
    stage = Stage(folder)
    say(f"a stack in {folder}; systems: {', '.join(s.name for s in chosen)}; workloads: {', '.join(plan.loads)}")
    try:
        stage.set_up()
        course = Course(stage, plan, seed, say, folder / "bench")
        course.folder.mkdir()
        for workload in plan.loads:
            found += course.workload(workload, chosen)
        # Hours of it: whoever names workloads asks for these.
        if curves or (curves is None and plan.name == "full" and not workloads):
            points = curve(course)
    finally:
        results = Results(
            plan=plan.name, began=began.isoformat(timespec="seconds"), minutes=(time.monotonic() - clock) / 60,
            seed=seed, commit=measured, machine=before, versions=versions(), runs=tuple(found), curve=tuple(points),
        )  # fmt: skip
        where = CHECKOUT / ".lakehouse/bench" / began.strftime("%Y%m%d-%H%M%S")
        page(results, where)
        stage.make("down")
        # Of what failed the logs are left to be looked at.
        if not keep and not isinstance(sys.exception(), Exception):
            shutil.rmtree(folder)
    for table in console_table(results):
        out.print(table)
    for verdict in verdicts(results):
        out.print(str(verdict), markup=False)
    out.print(f"{where / 'README.md'} has all of it, results.json the figures.", markup=False)
    if any(it.system == "lakehouse" and it.status not in ("exact", "not installed") for it in found):
        raise typer.Exit(1)


def _split(text: str) -> list[str]:
    return [name for name in text.replace(",", " ").split() if name]


def known(what: str, names: list[str], among: Collection[str]) -> list[str]:
    """``names``, if there are such; ends the process otherwise, with those that there are."""
    wrong = [name for name in names if name not in among]
    if wrong:
        out.print(f"{what}: there is no {', '.join(wrong)}; choose from {', '.join(among)}")
        sys.exit(2)
    return names
