"""Durations in specs: a number of seconds, or words such as ``10 minutes``."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator

_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_FORM = re.compile(r"(\d+(?:\.\d+)?)\s*(second|minute|hour|day)s?")


def seconds(given: Any) -> float:
    """Return a duration in seconds. Raises ValueError."""
    if isinstance(given, (int, float)) and not isinstance(given, bool) and given > 0:
        return float(given)
    found = _FORM.fullmatch(given.strip()) if isinstance(given, str) else None
    if found is None or float(found[1]) <= 0:
        raise ValueError(f"{given!r} is no duration, such as 30 seconds, 10 minutes, 6 hours or 7 days")
    return float(found[1]) * _UNITS[found[2]]


Duration = Annotated[float, BeforeValidator(seconds)]
