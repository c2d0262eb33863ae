"""Redact: events come from anywhere, and some producers send their configuration along. Secrets don't get in."""

import re
from typing import Any

HIDDEN = "[redacted]"
_SECRET = re.compile(
    r"passw|secret|passphrase|credential|api.?key|access.?key|private.?key|token|authorization|jaas|(^|[._-])auth$",
    re.IGNORECASE,
)
# A name and password in a URL, and a `password=…` in a text of settings.
_IN_URL = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^/\s:@]*:[^/\s@]*@", re.IGNORECASE)
_IN_TEXT = re.compile(
    r"(?P<name>\b[\w.-]*(?:password|passwd|secret|token|api[_-]?key)[\w.-]*\s*[=:]\s*)[^\s,;&\"']+", re.IGNORECASE
)


def redacted(value: Any) -> Any:
    """Return a value without what is secret in it.

    The values of names that say secret, and what looks like one in a text.
    """
    if isinstance(value, dict):
        return {name: _under(str(name), item) for name, item in value.items()}
    if isinstance(value, list):
        return [redacted(item) for item in value]
    if isinstance(value, str):
        return _IN_TEXT.sub(rf"\g<name>{HIDDEN}", _IN_URL.sub(rf"\g<scheme>{HIDDEN}@", value))
    return value


def _under(name: str, value: Any) -> Any:
    hidden = value not in (None, "") and not isinstance(value, dict) and _SECRET.search(name)
    return HIDDEN if hidden else redacted(value)
