"""Does something to every service, side by side, and to each only after those that it comes after."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from graphlib import CycleError, TopologicalSorter
from threading import Event

from services.runner.errors import CancelledError, ComposeFileError


def in_order(after: Mapping[str, Collection[str]], action: Callable[[str], None], cancel: Event) -> None:
    """Call `action` once a name, in threads; `after[name]` are the names whose action must have returned before.

    The first `RunnerError` sets `cancel`, which long actions watch; nothing new begins, and it is raised once all
    that had begun has ended. The same on Ctrl-C. Raises `ComposeFileError` if names wait for each other in a circle.
    """
    sorter = TopologicalSorter({name: [other for other in others if other in after] for name, others in after.items()})
    try:
        sorter.prepare()
    except CycleError as error:
        raise ComposeFileError(f"services wait for each other: {' → '.join(error.args[1])}") from error
    failure: BaseException | None = None
    running: dict[Future[None], str] = {}
    with ThreadPoolExecutor(max_workers=max(1, len(after)), thread_name_prefix="service") as pool:
        try:
            while sorter.is_active() and failure is None:
                running.update({pool.submit(action, name): name for name in sorter.get_ready()})
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    name = running.pop(future)
                    failure = failure or future.exception()
                    sorter.done(name)
        except KeyboardInterrupt as interrupt:
            failure = interrupt
        if failure is not None:
            cancel.set()
        wait(running)
    if isinstance(failure, KeyboardInterrupt):
        raise CancelledError("broken off; what had started goes on running", "make up, or make down") from failure
    if failure is not None:
        raise failure


def reversed_order(after: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    """Return the opposite order: for each name, those that come after it."""
    return {name: [other for other, others in after.items() if name in others] for name in after}
