"""Progress and summaries for people: live on a terminal, plain lines otherwise."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from services.producers.send import OnProgress, Progress, Summary
from services.stack.console import err, out

LINE_SECONDS = 10.0


@contextmanager
def sending(quiet: bool) -> Iterator[OnProgress]:
    """Show how far a run is."""
    if quiet:
        yield lambda _progress: None
        return
    if err.is_terminal:
        columns = (SpinnerColumn(), BarColumn(bar_width=20), TextColumn("{task.description}"), TimeElapsedColumn())
        with Bar(*columns, console=err, transient=True) as bar:
            task = bar.add_task("", total=None)
            yield lambda p: bar.update(task, completed=p.seconds, total=p.duration, description=_words(p))
        return
    shown = 0.0

    def on_progress(progress: Progress) -> None:
        nonlocal shown
        if progress.seconds - shown >= LINE_SECONDS:
            shown = progress.seconds
            err.print(f"{progress.seconds:.0f} s: {_words(progress)}")

    yield on_progress


def print_summary(summary: Summary, as_json: bool) -> None:
    """Print what was sent."""
    if as_json:
        print(summary.model_dump_json())
        return
    counts = ", ".join(f"{name} {count:,}" for name, count in summary.sent.items())
    out.print(f"Sent {sum(summary.sent.values()):,} events in {summary.seconds:.1f} s: {counts}.")
    if summary.failed:
        out.print(f"The broker didn't take {summary.failed:,} of them.")
    if summary.unsent:
        out.print(f"{summary.unsent:,} late ones weren't sent: their time had not come.")


def _words(progress: Progress) -> str:
    late = f", {progress.behind:.1f} s behind" if progress.behind > 1 else ""
    return f"{progress.sent:,} events{late}"
