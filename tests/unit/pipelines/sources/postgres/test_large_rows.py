"""Rows of messages of the logical replication protocol."""

import struct

import pytest

from pipelines.sources.postgres.large_rows import tuple_values

RELATION = struct.pack(">I", 16500)


def row(*values: str | None) -> bytes:
    """A row of the protocol; None: null, and an empty text a value that was left alone."""
    columns = [
        b"n"
        if value is None
        else b"u"
        if value == ""
        else b"t" + struct.pack(">I", len(value.encode())) + value.encode()
        for value in values
    ]
    return struct.pack(">H", len(values)) + b"".join(columns)


@pytest.mark.parametrize(
    ("message", "values"),
    [
        (b"I" + RELATION + b"N" + row("7", "größe", None), ["7", "größe", None]),
        (b"U" + RELATION + b"N" + row("7", ""), ["7", None]),
        (b"U" + RELATION + b"O" + row("7", "old") + b"N" + row("8", "new"), ["8", "new"]),
        (b"D" + RELATION + b"K" + row("7", None), ["7", None]),
    ],
    ids=["insert", "update", "update with the old row", "delete"],
)
def test_the_newest_row_of_a_message(message: bytes, values: list[str | None]) -> None:
    assert tuple_values(message) == values
