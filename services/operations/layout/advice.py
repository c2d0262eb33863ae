"""A layout for a table, from what was observed. Pure."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from services.operations.layout.observation import Filter, Observation

MIB = 2**20
# A partition of less than this makes more files than it saves bytes.
SMALLEST_PARTITION = 128 * MIB
# What a file is packed to.
FILE = 512 * MIB
MOST_VALUES = 1_000
HOURS = {"hour": 1, "day": 24, "month": 730.5, "year": 8766}
# What is worth a rewrite.
GAIN = 1.5


@dataclass(frozen=True)
class Advice:
    """A term for ``partition`` or ``sort`` (``part``) of a table's layout.

    ``now`` and ``then``: the share of the table that is read, or of its files that a batch touches, as measured and as
    estimated.
    """

    part: str
    term: str
    why: str
    now: float
    then: float


def advise(observed: Observation) -> list[Advice]:
    """Return what is worth it, the most useful first."""
    found = [*_reading(observed), *_merging(observed)]
    return sorted((a for a in found if a.now >= GAIN * a.then), key=lambda a: a.then / a.now)


def _reading(observed: Observation) -> Iterator[Advice]:
    for asked in observed.filters:
        why = f"of the table is read for one {asked.column}"
        parts, term = _partitions(observed, asked)
        if parts > 1:
            yield Advice("partition", term, why, asked.read, 1 / parts)
        else:
            yield Advice("sort", asked.column, why, asked.read, 1 / _files(observed))


def _partitions(observed: Observation, asked: Filter) -> tuple[float, str]:
    """Return how many partitions of a sensible size the column makes, and by what term."""
    most = observed.bytes / SMALLEST_PARTITION
    if asked.hours is None:
        return (asked.distinct, asked.column) if asked.distinct <= min(most, MOST_VALUES) else (1, "")
    for transform, hours in HOURS.items():
        if 1 < asked.hours / hours <= most:
            return asked.hours / hours, f"{transform}({asked.column})"
    return 1, ""


def _merging(observed: Observation) -> Iterator[Advice]:
    if observed.touched is not None and observed.spread is not None:
        why = f"of the files are touched by a batch of {observed.changes:,.0f} changed rows"
        yield Advice("sort", observed.key[0], why, observed.touched, observed.spread)


def _files(observed: Observation) -> int:
    return max(1, math.ceil(observed.bytes / FILE))
