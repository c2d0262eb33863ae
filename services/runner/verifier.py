"""What the verifier has to say for `make status`, and how it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table

from services.runner.report import labelled

if TYPE_CHECKING:
    from services.verify.explanation import Explanation
    from services.verify.rounds import TableState


@dataclass(frozen=True)
class Verified:
    """What the verifier knows of each table, and what explains the differences, by table."""

    states: list[TableState]
    explained: Mapping[str, tuple[Explanation, ...]]

    @property
    def differing(self) -> list[TableState]:
        """The tables that are known to differ."""
        return [state for state in self.states if state.differences]


def look() -> Verified | str:
    """Return what the verifier knows, or in one line why that can't be told."""
    # Here, because nothing else of the runner needs what reads the lake.
    from pyiceberg.exceptions import RESTError
    from requests.exceptions import RequestException

    from services.stack.endpoints import StackSettings
    from services.stack.errors import LakehouseError
    from services.stack.lake import open_catalog
    from services.verifier.facts import explanations
    from services.verify import record

    try:
        settings = StackSettings.load()
        states = record.read(open_catalog(settings))
        return Verified(states, explanations(settings, [state.table for state in states if state.differences]))
    except (LakehouseError, RESTError, RequestException, OSError) as error:
        return " ".join(str(error).split())[:200] or type(error).__name__


def as_json(known: Verified | str | None) -> dict[str, Any] | None:
    """Return it for `status --json`."""
    if known is None or isinstance(known, str):
        return {"problem": known} if known else None
    return {
        "differences": {state.table: state.differences for state in known.differing},
        "explanations": {table: [asdict(each) for each in found] for table, found in known.explained.items()},
        "verified": {state.table: state.verified.model_dump(mode="json") for state in known.states if state.verified},
    }


def is_healthy(known: Verified | str | None) -> bool:
    """Say whether nothing is known to differ. What can't be told is not held against the stack."""
    return known is None or isinstance(known, str) or not known.differing


def table(known: Verified | str) -> Table:
    """Return the report as rows of a name and a text."""
    return labelled([("verifier", f"not known: {known}")] if isinstance(known, str) else _rows(known))


def _rows(known: Verified) -> Iterator[tuple[str, str]]:
    verified = [state.verified.at for state in known.states if state.verified]
    since = f", each through {min(verified):%Y-%m-%d %H:%M:%S} UTC or later" if verified else ""
    yield "verifier", f"{len(verified)} of {len(known.states)} tables verified{since}"
    for state in known.states:
        if state.differences:
            yield "  differs", _differs(state)
            for each in known.explained.get(state.table, ()):
                yield "    because", str(each)
        if state.not_compared:
            yield "  not compared", f"{state.table}: {state.not_compared}"


def _differs(state: TableState) -> str:
    if state.counts is None:
        return f"{state.table}: {state.differences:,}; see `lakehouse verify --continuous`"
    return f"{state.table}: at least {state.differences:,}; {state.counts}; see `lakehouse verify {state.table}`"
