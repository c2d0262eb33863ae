"""Storable: an event as PostgreSQL can hold it, and where that differs from what was sent."""

import math
import re
from typing import Any

from lineage.errors import NotAnEvent

MOST_LEVELS = 100
# Unicode's own sign for what couldn't be kept.
REPLACEMENT = "\ufffd"
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


def storable(value: Any) -> tuple[Any, list[str]]:
    """Return JSON that ``jsonb`` can hold, and the places that were replaced, as ``run.facets.x``.

    In names and texts NUL and halves of surrogate pairs become U+FFFD; a number beyond a double's range becomes null.
    Raises NotAnEvent for what is nested deeper than `MOST_LEVELS`.
    """
    replaced: list[str] = []
    return _kept(value, "", 0, replaced), replaced


def _kept(value: Any, at: str, level: int, replaced: list[str]) -> Any:
    if level > MOST_LEVELS:
        raise NotAnEvent(f"not an OpenLineage event: it is nested more than {MOST_LEVELS} levels deep")
    if isinstance(value, dict):
        return {
            _text(name, at, replaced): _kept(item, f"{at}.{name}", level + 1, replaced) for name, item in value.items()
        }
    if isinstance(value, list):
        return [_kept(item, f"{at}.{number}", level + 1, replaced) for number, item in enumerate(value)]
    if isinstance(value, str):
        return _text(value, at, replaced)
    if isinstance(value, float) and not math.isfinite(value):
        replaced.append(_place(at))
        return None
    return value


def _text(text: str, at: str, replaced: list[str]) -> str:
    kept = _clean(text)
    if kept != text:
        replaced.append(_place(at))
    return kept


def _clean(text: str) -> str:
    return _NO_TEXT.sub(REPLACEMENT, text)


def _place(at: str) -> str:
    return _clean(at.removeprefix(".")) or "the event itself"
