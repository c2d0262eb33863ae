"""Conditions for rows of a mirrored table, by the record that wrote them."""

from collections.abc import Mapping


def written_before(positions: Mapping[int, int], row: str = "") -> str:
    """Return the condition for a mirrored table's row that was written by a record before its partition's position.

    Every row of a topic that is gone is one, whose offset is below all others.
    """
    conditions = (
        f"({row}_kafka_partition = {partition:d} AND {row}_kafka_offset < {offset:d})"
        for partition, offset in sorted(positions.items())
    )
    return " OR ".join(conditions) or "false"
