"""How far a run is, for people: a bar on a terminal, a line now and then otherwise."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from rich.progress import Progress as Bar
from rich.progress import ProgressColumn

from services.stack.console import err

LINE_SECONDS = 10.0


class Running(Protocol):
    """How far a run is. ``seconds``: since it began."""

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        ...


Run = TypeVar("Run", bound=Running)


@contextmanager
def running(
    quiet: bool,
    columns: tuple[ProgressColumn, ...],
    done_of: Callable[[Run], tuple[float, float | None]],
    words: Callable[[Run], str],
    line: Callable[[Run], str],
    transient: bool = False,
) -> Iterator[Callable[[Run], None]]:
    """Show how far a run is.

    ``columns``: of the bar; ``done_of``: how much is done, and of how much (None: nobody knows); ``words``: beside the
    bar, and ``line``: without one. ``transient``: the bar is gone in the end.
    """
    if quiet:
        yield lambda _run: None
        return
    if err.is_terminal:
        with Bar(*columns, console=err, transient=transient) as bar:
            task = bar.add_task("", total=None)

            def on_bar(run: Run) -> None:
                done, total = done_of(run)
                bar.update(task, completed=done, total=total, description=words(run))

            yield on_bar
        return
    shown = 0.0

    def on_progress(run: Run) -> None:
        nonlocal shown
        if run.seconds - shown >= LINE_SECONDS:
            shown = run.seconds
            err.print(f"{run.seconds:.0f} s: {line(run)}")

    yield on_progress
