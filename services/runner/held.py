"""Which tables the mirror and the streams hold, for `make status`, and how they are shown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.table import Table

from pipelines.progress.holds import AWAITS, GIVEN_UP, HELD
from services.runner.report import labelled

if TYPE_CHECKING:
    from services.runner.protocol import Runner

HELD_PAGE = "infra/runbooks/table-held.md"


def look(runner: Runner, streams: bool) -> dict[str, str] | str:
    """Return what is held, by its topic or table, and why; or in one line why that can't be told.

    ``streams``: whether they run, so that theirs counts as well.
    """
    # Here, because nothing else of the runner needs a client of Kafka.
    from services.stack.endpoints import StackSettings
    from services.stack.errors import LakehouseError
    from services.stack.offsets import kafka

    try:
        mirrored = kafka(StackSettings.load()).held()
    except LakehouseError as error:
        return " ".join(str(error).split())[:200]
    kept = runner.kept("streams", HELD) if streams else None
    return mirrored | (json.loads(kept) if kept else {})


def as_json(held: dict[str, str] | str | None) -> dict[str, Any] | None:
    """Return it for `status --json`."""
    if isinstance(held, str):
        return {"problem": held}
    return None if held is None else {"held": held}


def is_healthy(held: dict[str, str] | str | None) -> bool:
    """Say whether no table waits for a person. What can't be told is not held against the stack."""
    return not isinstance(held, dict) or all(why.startswith((GIVEN_UP, AWAITS)) for why in held.values())


def table(held: dict[str, str] | str) -> Table:
    """Return the report as rows of a name and a text."""
    if isinstance(held, str):
        return labelled([("mirror", f"not known: {held}")])
    waiting = {name: why for name, why in held.items() if why.startswith(AWAITS)}
    amiss = {name: why for name, why in held.items() if name not in waiting}
    first = f"{len(amiss)} tables are held; see {HELD_PAGE}" if amiss else "no table is held"
    lines = [("  held", f"{topic}: {why}") for topic, why in sorted(amiss.items())]
    return labelled([("mirror", first), *lines, *(("  waits", why.removeprefix(AWAITS)) for why in waiting.values())])
