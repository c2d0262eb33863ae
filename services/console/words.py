"""How numbers and moments are said on pages."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from services.stack.words import age as spoken
from services.stack.words import size


def number(value: float | None) -> str:
    """Return a number with its thousands."""
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:,.1f}"


def age(seconds: float | None) -> str:
    """Return how long that is."""
    return "-" if seconds is None else spoken(seconds)


def ago(moment: datetime | float | None) -> str:
    """Return how long ago that was."""
    if moment is None:
        return "never"
    at = datetime.fromtimestamp(moment, UTC) if isinstance(moment, float) else moment
    return f"{spoken(max(0.0, (datetime.now(UTC) - at).total_seconds()))} ago"


def lasting(since: datetime | None) -> str:
    """Return for how long something has been so."""
    return "a while" if since is None else spoken(max(0.0, (datetime.now(UTC) - since).total_seconds()))


def moment(at: datetime | None) -> str:
    """Return a moment to the second."""
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def spark(values: Sequence[float], width: int = 120, height: int = 24) -> str:
    """Return the points of a line through the values, for SVG."""
    if len(values) < 2:
        return ""
    most = max(*values, 1.0)
    step = width / (len(values) - 1)
    return " ".join(f"{i * step:.1f},{height - 2 - (v / most) * (height - 4):.1f}" for i, v in enumerate(values))


def short(value: Any, most: int = 200) -> str:
    """Return a value as text that fits a cell."""
    text = "" if value is None else str(value)
    return text if len(text) <= most else f"{text[:most]}…"


FILTERS: Mapping[str, Callable[..., Any]] = {
    "number": number, "age": age, "ago": ago, "lasting": lasting, "moment": moment, "size": size,
    "spark": spark, "short": short,
}  # fmt: skip
