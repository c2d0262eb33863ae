"""Progress and summaries for people: live on a terminal, plain lines otherwise."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from services.shop.load import LoadSummary, OnRows
from services.shop.summary import Progress as RunProgress
from services.shop.summary import Summary
from services.shop.workload import OnProgress
from services.stack.console import Grid, err, out
from services.stack.running import running


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


def shopping(quiet: bool) -> AbstractContextManager[OnProgress]:
    """Show how far a run is."""
    columns = (
        SpinnerColumn(), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    )  # fmt: skip
    return running(
        quiet, columns, lambda p: (p.transactions, p.planned), _words,
        lambda p: f"{p.transactions:,} transactions, {_words(p)}",
    )  # fmt: skip


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


def _words(progress: RunProgress) -> str:
    behind = f", {progress.behind:.1f} s behind" if progress.behind > 1 else ""
    return f"{progress.row_changes:,} row changes, {progress.rate:,.0f}/s{behind}"
