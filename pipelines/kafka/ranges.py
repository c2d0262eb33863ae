"""Ranges of offsets, by partition, and what can be said of them. Pure."""

import json
from collections.abc import Mapping

Positions = Mapping[int, int]


Ranges = Mapping[int, tuple[int, int]]


def positions_json(positions: Positions) -> str:
    """Positions as JSON."""
    return json.dumps({str(partition): offset for partition, offset in sorted(positions.items())})


def parse_positions(text: str) -> dict[int, int]:
    """The positions that :func:`told` wrote."""
    return {int(partition): int(offset) for partition, offset in json.loads(text).items()}


def offset_count(ranges: Ranges) -> int:
    """How many offsets they are."""
    return sum(end - start for start, end in ranges.values())


def non_empty(ranges: Ranges) -> dict[int, tuple[int, int]]:
    """Those that have an offset."""
    return {partition: (start, end) for partition, (start, end) in ranges.items() if start < end}
