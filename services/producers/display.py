"""Progress and summaries for people: live on a terminal, plain lines otherwise."""

from contextlib import AbstractContextManager

from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

from services.producers.send import OnProgress, Progress, Summary
from services.stack.console import out
from services.stack.running import running


def sending(quiet: bool) -> AbstractContextManager[OnProgress]:
    """Show how far a run is."""
    columns = (SpinnerColumn(), BarColumn(bar_width=20), TextColumn("{task.description}"), TimeElapsedColumn())
    return running(quiet, columns, lambda p: (p.seconds, p.duration), _words, _words, transient=True)


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
