"""Periods: the last day by the hour and the last week by the day, in a time zone."""

from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from lineage.errors import LineageError

Interval = tuple[datetime, datetime]


class NoPeriod(LineageError):
    """The period or time zone isn't one."""


def intervals(period: str, timezone: str | None, now: datetime) -> list[Interval]:
    """Return the intervals of a period, oldest first; ``now`` is in the last.

    ``period``: ``DAY`` (24 hours) or ``WEEK`` (7 days of ``timezone``, 23 or 25 hours long where clocks change). Raises
    NoPeriod.
    """
    if period == "DAY":
        last = now.replace(minute=0, second=0, microsecond=0)
        starts = [last + timedelta(hours=hour) for hour in range(-23, 2)]
    elif period == "WEEK":
        zone = _zone(timezone)
        today = now.astimezone(zone).date()
        days = [today + timedelta(days=day) for day in range(-6, 2)]
        starts = [datetime.combine(day, time(), zone).astimezone(UTC) for day in days]
    else:
        raise NoPeriod(f"period is DAY or WEEK, not {period}")
    return list(pairwise(starts))


def _zone(name: str | None) -> ZoneInfo:
    if not name:
        raise NoPeriod("a WEEK needs a timezone, as Europe/Berlin")
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise NoPeriod(f"no time zone is called {name}: one is Europe/Berlin") from None
