"""An answer as a chart: its first column along the axis; its columns of numbers as lines, or the first as bars."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from services.console.query import Answer

MOST_LINES, MOST_BARS = 5, 60


@dataclass(frozen=True)
class Chart:
    """What is drawn. ``at``: where along the axis; ``words``: what is there, for bars; ``is_time``: seconds since 1970.

    ``lines``: name to a value for each place, or None.
    """

    at: list[float]
    lines: dict[str, list[float | None]]
    is_time: bool
    words: list[str] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return this as plain data."""
        return {"at": self.at, "lines": self.lines, "time": self.is_time, "words": self.words}


def chart(answer: Answer) -> Chart | None:
    """Return an answer as a chart; None: it has less than two rows, or no column of numbers beside the first."""
    if len(answer.rows) < 2 or len(answer.columns) < 2:
        return None
    columns = list(zip(*answer.rows, strict=True))
    numbers = [index for index, column in enumerate(columns) if index and _are_numbers(column)][:MOST_LINES]
    if not numbers:
        return None
    places = [_place(value) for value in columns[0]]
    if all(place is not None for place in places):
        order = sorted(range(len(places)), key=lambda index: places[index] or 0.0)
        at, words = [places[index] or 0.0 for index in order], None
    elif len(places) <= MOST_BARS:
        order, words = list(range(len(places))), [str(value) for value in columns[0]]
        # Bars of several columns would hide each other.
        numbers = numbers[:1]
        at = [float(index) for index in order]
    else:
        return None
    lines = {answer.columns[n]: [_number(columns[n][index]) for index in order] for n in numbers}
    return Chart(at, lines, isinstance(columns[0][0], date), words)


def _are_numbers(column: Sequence[Any]) -> bool:
    return all(_is_number(value) or value is None for value in column) and any(value is not None for value in column)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _place(value: Any) -> float | None:
    """Return where along the axis a value is; None: it is no number or time."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp()
    return float(value) if _is_number(value) else None
