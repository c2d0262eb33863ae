"""How far the lake is behind its topics."""

from services.stack.offsets import behind


def test_behind_needs_no_position_of_an_empty_partition() -> None:
    ends = {("t", 0): 10, ("t", 1): 5, ("t", 2): 7, ("t", 3): 0}
    starts = {("t", 0): 0, ("t", 1): 5, ("t", 2): 4, ("t", 3): 0}
    assert behind(ends, starts, {("t", 0): 8}) == {("t", 0): 2, ("t", 2): 3}
    assert behind(ends, starts, {("t", 0): 10, ("t", 2): 9}) == {}
