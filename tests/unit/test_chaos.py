"""What `make chaos` does is decided by its seed, and a failpoint comes with what makes the mirror pass it."""

from collections import Counter
from itertools import islice

import pytest

from pipelines.failpoints import FAILPOINTS
from tests.chaos.plan import CAUSES, Action, actions, missed


def planned(seed: int, number: int = 200) -> list[Action]:
    return list(islice(actions(seed), number))


def test_a_seed_decides_every_action() -> None:
    once, again, other = map(planned, (7, 7, 8))
    assert once == again
    assert once != other
    assert {action.kind for action in once} == {"kill", "failpoint", "network", "schema", "burst", "poison"}


def test_every_failpoint_is_chosen_with_its_cause() -> None:
    assert CAUSES.keys() == FAILPOINTS.keys()
    chosen = [action for action in planned(7, 1000) if action.kind == "failpoint"]
    assert {action.what.split()[0] for action in chosen} == FAILPOINTS.keys()
    for action in chosen:
        assert action.cause is not None
        assert action.cause.kind == CAUSES[action.what.split()[0]]  # type: ignore[index]
        assert bool(action.cause.statements) is (action.cause.kind in ("column", "key"))
        assert bool(action.cause.before) is (action.cause.kind == "key")
    assert all(action.cause is None for action in planned(7) if action.kind != "failpoint")


def test_a_column_is_dropped_or_renamed_only_while_it_is_there() -> None:
    there: set[tuple[str, str]] = set()
    for action in planned(7, 1000):
        for statement in action.cause.statements[:1] if action.cause else (action.what,) * (action.kind == "schema"):
            words = statement.split()
            if words[3:5] == ["ADD", "COLUMN"]:
                there.add((words[2], words[5]))
            elif words[3:5] == ["DROP", "COLUMN"]:
                there.remove((words[2], words[5]))
            elif words[3:5] == ["RENAME", "COLUMN"]:
                there.remove((words[2], words[5]))
                there.add((words[2], words[7]))


@pytest.mark.parametrize(
    ("armed", "fired", "expected"),
    [
        ({}, {}, []),
        ({"a": 2, "b": 2}, {"a": 2}, []),
        ({"a": 2, "b": 3}, {"a": 2}, ["b (0 of 3)"]),
        ({"a": 3, "b": 1, "c": 1}, {"a": 1, "c": 1}, ["a (1 of 3)", "b (0 of 1)"]),
        ({"a": 1}, {}, ["a (0 of 1)"]),
    ],
    ids=["none was set", "half", "fewer than half", "some more than once", "none fired"],
)
def test_a_run_in_which_most_never_fired_names_them(
    armed: dict[str, int], fired: dict[str, int], expected: list[str]
) -> None:
    assert missed(Counter(armed), Counter(fired)) == expected
