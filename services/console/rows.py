"""Rows of the pages: what is known of each table from all sides, and in which state it is."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from services.console.house import House, TableView
from services.facts.tables import TableFacts

State = Literal["held", "differs", "late", "broken", "waits", "unknown", "ok"]
# What is worse comes first.
STATES: tuple[State, ...] = ("held", "differs", "late", "broken", "waits", "unknown", "ok")
# Beyond what was asked for, until a table counts as late on a page. An alert is more patient.
GRACE_SECONDS = 30.0
WAITS = "waits: "


@dataclass(frozen=True)
class TableRow:
    """A table, as pages show it. ``fresh``: how old what it shows is, in seconds; None: not known."""

    name: str
    kind: str
    view: TableView
    lag: int
    fresh: float | None
    held: str | None
    differences: int
    verified_at: datetime | None
    letters: int
    broken: int
    why: tuple[str, ...]
    state: State
    spark: tuple[float, ...]

    @property
    def facts(self) -> TableFacts:
        """What the catalog says."""
        return self.view.facts

    @property
    def asked(self) -> float | None:
        """How fresh its spec wants it, in seconds."""
        return self.view.asked

    def plain(self) -> dict[str, Any]:
        """Return what pages ask for as JSON."""
        return {
            "table": self.name, "kind": self.kind, "state": self.state, "why": list(self.why), "rows": self.facts.rows,
            "lag": self.lag, "freshness_seconds": self.fresh, "freshness_asked": self.asked,
            "differences": self.differences, "dead_letters": self.letters, "broken_promises": self.broken,
        }  # fmt: skip


def table_rows(house: House) -> list[TableRow]:
    """Return all tables, by name."""
    letters: dict[str, int] = {}
    for group in house.letters.counts if house.letters else ():
        letters[group["topic"]] = letters.get(group["topic"], 0) + int(group["letters"])
    return [_row(house, name, view, letters) for name, view in sorted(house.tables.items())]


def _row(house: House, name: str, view: TableView, letters: dict[str, int]) -> TableRow:
    facts, topic = view.facts, view.facts.topic or ""
    verified = house.verification.get(facts.source_table or "")
    check = house.checks.get(name)
    held = house.progress.held.get(topic)
    lag, fresh = house.progress.lags.get(topic, 0), freshness(house, name, view)
    differences = verified.differences if verified else 0
    broken = check.failed if check is not None and not check.error else 0
    state, why = _state(held, differences, fresh, view, broken)
    return TableRow(
        name, facts.kind, view, lag, fresh, held, differences,
        verified.verified.at if verified and verified.verified else None,
        letters.get(topic, 0), broken, tuple(why), state, tuple(house.fresh.get(name, ())),
    )  # fmt: skip


def freshness(house: House, name: str, view: TableView) -> float | None:
    """Return how old what a table shows is, in seconds; None: not known."""
    if view.facts.topic is None:
        return house.current_age.get(name)
    if not house.progress.lags.get(view.facts.topic, 0):
        return 0.0
    since = house.progress.oldest.get(view.facts.topic)
    return None if since is None else max(0.0, datetime.now(UTC).timestamp() - since)


def _state(
    held: str | None, differences: int, fresh: float | None, view: TableView, broken: int
) -> tuple[State, list[str]]:
    why: list[str] = []
    state: State = "ok" if fresh is not None else "unknown"
    if broken:
        state, why = "broken", [f"broken promises of its contract: {broken:,}"]
    why += view.alerts
    if view.alerts and state in ("ok", "unknown"):
        state = "broken"
    if fresh is not None and view.asked is not None and fresh > view.asked + GRACE_SECONDS:
        state, why = "late", [f"{fresh:,.0f} s old, of {view.asked:g} s asked for", *why]
    if differences:
        state, why = "differs", [f"rows that differ from the source: {differences:,}", *why]
    if held:
        state, why = ("waits" if held.startswith(WAITS) else "held"), [held, *why]
    return state, why
