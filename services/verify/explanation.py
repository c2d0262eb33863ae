"""What explains that a table differs from its source, from what else is known of the table. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Cause = Literal["held", "resync", "read again", "dead letters", "unexplained", "not known"]
PAGE = "infra/runbooks/lake-differs.md"


@dataclass(frozen=True)
class Facts:
    """What is known of a table now.

    ``letters``: reason to how many open dead letters it has. ``held``: why the mirror holds it. ``rereads``: why its
    rows are read again. ``resync``: one has begun and hasn't ended.
    """

    letters: Mapping[str, int] = field(default_factory=dict)
    held: str | None = None
    rereads: tuple[str, ...] = ()
    resync: bool = False


@dataclass(frozen=True)
class Explanation:
    """A cause of a difference, what there is to say of it, and what to do."""

    cause: Cause
    text: str
    next: str

    def __str__(self) -> str:
        return f"{self.text}; {self.next}"


def explain(table: str, topic: str, facts: Facts) -> tuple[Explanation, ...]:
    """Return all that explains a difference of ``table``; if nothing does, that it is unexplained."""
    found = []
    if facts.held is not None:
        found.append(Explanation("held", f"the mirror holds it: {facts.held}", "once that is mended, it goes on"))
    if facts.resync:
        again = f"wait; if its command was ended, `lakehouse resync {table}`"
        found.append(Explanation("resync", "a resync of it has begun and hasn't ended", again))
    if facts.rereads:
        why = "; ".join(dict.fromkeys(facts.rereads))
        found.append(Explanation("read again", f"rows of it are being read again: {why}", "wait"))
    if facts.letters:
        count = sum(facts.letters.values())
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in sorted(facts.letters.items()))
        letters = f"{count:,} open dead letter{'s' if count > 1 else ''} of it: {reasons}"
        found.append(Explanation("dead letters", letters, f"`lakehouse dlq list --topic {topic}`"))
    if not found:
        nothing = "unexplained: no dead letter, no hold, and nothing is being read again"
        found.append(Explanation("unexplained", nothing, f"see {PAGE}, then `lakehouse heal {table}`"))
    return tuple(found)


def not_known(error: str) -> tuple[Explanation, ...]:
    """Return what is said of a difference while a server doesn't answer."""
    return (Explanation("not known", f"what explains it isn't known: {error}", "see `make status`"),)
