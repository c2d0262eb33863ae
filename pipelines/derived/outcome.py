"""What became of a derived table in one go."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

# nothing: no input had anything that concerns it. first: the table was empty. keys: rows of the affected keys were
# computed; whole: all of it was.
How = Literal["nothing", "first", "keys", "whole"]


@dataclass
class DerivedOutcome:
    """What became of a derived table in one go.

    ``why``: why all of it was computed, where it was; ``keys``: how many were affected; ``late``: rows of its windows'
    input that came too late; ``oldest``: when the oldest change of an input that it now shows was committed there.
    """

    how: How = "nothing"
    why: str | None = None
    keys: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    late: int = 0
    commits: int = 0
    announced: int = 0
    changes: list[str] = field(default_factory=list)
    layout_refused: str | None = None
    oldest: datetime | None = None
