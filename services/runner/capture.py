"""What capture has to say for `make status`, and how it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.table import Table

from pipelines.sources.base.errors import SourceError
from services.runner.report import labelled

if TYPE_CHECKING:
    from services.capture.status import CaptureReport
    from services.runner.protocol import Runner

MIB = 1024**2
CHANGED_PAGE = "infra/runbooks/changed-without-events.md"


def look(runner: Runner) -> CaptureReport | str:
    """Return capture's report, or in one line why there is none."""
    # Here, because nothing else of the runner needs what capture imports.
    from services.capture import health
    from services.capture.status import report
    from services.stack.errors import LakehouseError

    try:
        return report(seen=health.parsed(runner.kept("capture", health.FILE)))
    except (LakehouseError, SourceError, OSError, ValueError) as error:
        return " ".join(str(error).split())[:200] or type(error).__name__


def as_json(capture: CaptureReport | str | None) -> dict[str, Any] | None:
    """Return it for `status --json`."""
    if isinstance(capture, str):
        return {"problem": capture}
    return capture.model_dump(mode="json") | {"healthy": capture.healthy} if capture else None


def is_healthy(capture: CaptureReport | str | None) -> bool:
    """Say whether changes flow. What is not looked at is not held against the stack."""
    return capture is None or (not isinstance(capture, str) and capture.healthy)


def table(capture: CaptureReport | str) -> Table:
    """Return the report as rows of a name and a text."""
    return labelled([("capture", f"not known: {capture}")] if isinstance(capture, str) else _rows(capture))


def _rows(capture: CaptureReport) -> Iterator[tuple[str, str]]:
    tasks = "; ".join(f"task {number} {state}" for number, state in capture.tasks.items())
    yield "capture", f"connector {capture.connector}" + (f"; {tasks}" if tasks else "")
    if capture.error:
        yield "  error", capture.error
    if capture.next_step:
        yield "  next", capture.next_step
    if capture.warning:
        yield "  warning", capture.warning
    if capture.restarts_used:
        yield "  task restarts", f"{capture.restarts_used} of {capture.restarts_allowed}"
    yield "  slot", capture.slot + _held(capture.wal_held_bytes, capture.wal_bound_bytes)
    for name, why in sorted(capture.changed_without_events.items()):
        yield "  changed without events", f"{name}: {why}; being read again, see {CHANGED_PAGE}"
    tables: dict[str, list[str]] = {}
    for name, becomes in sorted(capture.tables.items()):
        mode, _, reason = becomes.partition(": ")
        tables.setdefault(mode, []).append(f"{name} ({reason})" if reason else name)
    for mode, names in sorted(tables.items()):
        yield f"  {mode}", ", ".join(names)


def _held(held: int | None, bound: int | None) -> str:
    if held is None:
        return ""
    limit = f" of at most {bound / MIB:,.0f}" if bound is not None else ""
    return f"; holds {held / MIB:,.1f}{limit} MiB of the source's log"
