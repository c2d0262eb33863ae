"""What the verifier has to say for `make status`, and how it is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from services.verify.rounds import TableState


def look() -> list[TableState] | str:
    """Return what the verifier knows of each table, or in one line why that can't be told."""
    # Here, because nothing else of the runner needs what reads the lake.
    from pyiceberg.exceptions import RESTError
    from requests.exceptions import RequestException

    from services.stack.endpoints import StackSettings
    from services.stack.errors import LakehouseError
    from services.stack.lake import open_catalog
    from services.verify import record

    try:
        return record.read(open_catalog(StackSettings.load()))
    except (LakehouseError, RESTError, RequestException, OSError) as error:
        return " ".join(str(error).split())[:200] or type(error).__name__


def as_json(known: list[TableState] | str | None) -> dict[str, Any] | None:
    """Return it for `status --json`."""
    if known is None or isinstance(known, str):
        return {"problem": known} if known else None
    return {
        "differences": {state.table: state.differences for state in known if state.differences},
        "verified": {state.table: state.verified.model_dump(mode="json") for state in known if state.verified},
    }


def is_healthy(known: list[TableState] | str | None) -> bool:
    """Say whether nothing is known to differ. What can't be told is not held against the stack."""
    return known is None or isinstance(known, str) or not any(state.differences for state in known)


def table(known: list[TableState] | str) -> Table:
    """Return the report as rows of a name and a text."""
    shown = Table(box=None, pad_edge=False, show_header=False)
    shown.add_column(style="bold", no_wrap=True)
    shown.add_column(overflow="fold")
    if isinstance(known, str):
        shown.add_row("verifier", Text(f"not known: {known}"))
        return shown
    verified = [state.verified.at for state in known if state.verified]
    since = f", each through {min(verified):%Y-%m-%d %H:%M:%S} UTC or later" if verified else ""
    shown.add_row("verifier", f"{len(verified)} of {len(known)} tables verified{since}")
    for state in known:
        if state.differences:
            shown.add_row(
                "  differs", Text(f"{state.table}: {state.differences:,}; see `lakehouse verify --continuous`")
            )
        if state.not_compared:
            shown.add_row("  not compared", Text(f"{state.table}: {state.not_compared}"))
    return shown
