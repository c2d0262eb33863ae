"""The check of keys' states finds what it is there to find, and nothing in a history that is well."""

import duckdb
import pytest

from tests.integration.oracles import GONE, STATES, VERSIONS

# seq, offset, log position, operation, file and position of each version of key 1; then what was deleted when.
Version = tuple[int, int, int, str, str, int]
CASES = [
    ("inserted, updated", [(1, 5, 50, "c", "a", 0), (2, 6, 60, "u", "b", 0)], [("a", 0, 2)], None),
    ("deleted and inserted again", [(1, 5, 50, "c", "a", 0), (4, 9, 90, "c", "b", 0)], [("a", 0, 2)], None),
    ("rewritten as it is", [(1, 5, 50, "c", "a", 0), (2, 5, 50, "c", "b", 0)], [("a", 0, 2)], None),
    ("its file removed", [(1, 5, 50, "c", "a", 0), (3, 6, 60, "c", "b", 0)], [("a", None, 2)], None),
    ("its delete told again by a newer delete file", [(1, 5, 50, "c", "a", 0), (2, 6, 60, "u", "b", 0)],
     [("a", 0, 2), ("a", 0, 3)], None),
    ("read by a snapshot of the source", [(1, 5, 50, "u", "a", 0), (2, 6, 40, "r", "b", 0)], [("a", 0, 2)], None),
    ("there twice", [(1, 5, 50, "c", "a", 0), (2, 6, 60, "u", "b", 0)], [], "is there twice"),
    ("deleted too late", [(1, 5, 50, "c", "a", 0), (2, 6, 60, "u", "b", 0)], [("a", 0, 3)], "is there twice"),
    ("an older offset", [(1, 5, 50, "c", "a", 0), (2, 4, 60, "u", "b", 0)], [("a", 0, 2)], "an older offset"),
    ("an older log position", [(1, 5, 50, "c", "a", 0), (2, 6, 40, "u", "b", 0)], [("a", 0, 2)], "older log position"),
    ("back after its delete", [(1, 5, 50, "c", "a", 0), (3, 5, 50, "c", "b", 0)], [("a", 0, 2)], "comes back"),
]  # fmt: skip


@pytest.mark.parametrize(("versions", "gone", "problem"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_states_of_a_key(versions: list[Version], gone: list[tuple[str, int | None, int]], problem: str | None) -> None:
    with duckdb.connect() as connection:
        connection.execute(VERSIONS)
        connection.execute(GONE)
        for seq, off, lsn, op, file, pos in versions:
            connection.execute(
                "INSERT INTO versions VALUES ('t', '1', ?, 0, ?, ?, ?, ?, ?)", [seq, off, lsn, op, file, pos]
            )
        for file, position, seq in gone:
            connection.execute("INSERT INTO gone VALUES ('t', ?, ?, ?)", [file, position, seq])
        found = [row[3] for row in connection.execute(STATES, {"tbl": "t"}).fetchall()]
    assert len(found) == (problem is not None)
    assert problem is None or problem in found[0]
