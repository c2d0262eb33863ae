"""Conditions for rows of a mirrored table, by the record that wrote them."""

from collections.abc import Mapping


def written_before(positions: Mapping[int, int], row: str = "") -> str:
    """The condition for a mirrored table's row that was written by a record before its partition's position."""
    conditions = (
        f"({row}_kafka_partition = {partition:d} AND {row}_kafka_offset < {offset:d})"
        for partition, offset in sorted(positions.items())
        if offset
    )
    return " OR ".join(conditions) or "false"
