"""Progress and summaries for people: live on a terminal, plain lines otherwise."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from services.shop.load import LoadSummary, OnRows
from services.shop.summary import Progress as RunProgress
from services.shop.summary import Summary
from services.shop.workload import OnProgress
from services.stack.console import Grid, err, out

LINE_SECONDS = 10.0


@contextmanager
def loading(quiet: bool) -> Iterator[OnRows]:
    """Show rows as they are loaded."""
    if quiet:
        yield lambda _table, _rows: None
        return
    if not err.is_terminal:
        yield lambda table, rows: err.print(f"loaded {rows:,} rows into {table}")
        return
    with Progress(SpinnerColumn(), TextColumn("{task.description}"), MofNCompleteColumn(), console=err) as bars:
        tasks: dict[str, int] = {}

        def on_rows(table: str, rows: int) -> None:
            if table not in tasks:
                tasks[table] = int(bars.add_task(table, total=None))
            bars.advance(bars.task_ids[list(tasks).index(table)], rows)

        yield on_rows


@contextmanager
def shopping(quiet: bool) -> Iterator[OnProgress]:
    """Show how far a run is."""
    if quiet:
        yield lambda _progress: None
        return
    if err.is_terminal:
        with _bar() as bar:
            task = bar.add_task("", total=None)
            yield lambda p: bar.update(task, completed=p.transactions, total=p.planned, description=_words(p))
        return
    shown = 0.0

    def on_progress(progress: RunProgress) -> None:
        nonlocal shown
        if progress.seconds - shown >= LINE_SECONDS:
            shown = progress.seconds
            err.print(f"{progress.seconds:.0f} s: {progress.transactions:,} transactions, {_words(progress)}")

    yield on_progress


def print_load(summary: LoadSummary, as_json: bool) -> None:
    """Print what was loaded."""
    if as_json:
        print(summary.model_dump_json())
        return
    rows = ", ".join(f"{table} {count:,}" for table, count in summary.rows.items())
    out.print(f"Loaded {summary.total:,} rows in {summary.seconds:.1f} s: {rows}.")


def print_summary(summary: Summary, as_json: bool) -> None:
    """Print what a run did."""
    if as_json:
        print(summary.model_dump_json())
        return
    grid = Grid("table", "insert", "update", "delete", title=f"Row changes of run {summary.run}")
    for column in grid.columns[1:]:
        column.justify = "right"
    for table, changes in summary.changes.items():
        grid.add_row(table, *(f"{changes.get(op, 0):,}" for op in ("insert", "update", "delete")))
    out.print(grid)
    left = "" if summary.complete else f", {(summary.planned or 0) - summary.transactions:,} of the plan left undone"
    out.print(
        f"{summary.transactions:,} transactions ({summary.abandoned:,} rolled back{left}), {summary.row_changes:,} row "
        f"changes in {summary.seconds:.1f} s: {summary.rate:,.1f} transactions/s, {summary.late_share:.1%} late."
    )


def _bar() -> Progress:
    return Progress(
        SpinnerColumn(),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=err,
    )


def _words(progress: RunProgress) -> str:
    behind = f", {progress.behind:.1f} s behind" if progress.behind > 1 else ""
    return f"{progress.row_changes:,} row changes, {progress.rate:,.0f}/s{behind}"
