"""A place where copies of a row are or were, and what is known of it."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Copy:
    """Where copies of the row are or were.

    ``found``: how many files, records or letters; ``gone``: none can be read any more; ``until``: when the last byte is
    gone at the latest, if that isn't now; ``detail``: what to know.
    """

    where: str
    what: str
    found: int
    gone: bool
    until: datetime | None = None
    detail: str | None = None
