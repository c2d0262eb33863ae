"""What `make chaos` does is decided by its seed."""

from itertools import islice

from tests.chaos.runner import actions


def test_a_seed_decides_every_action() -> None:
    once, again, other = (list(islice(actions(seed), 200)) for seed in (7, 7, 8))
    assert once == again
    assert once != other
    assert {action.kind for action in once} == {"kill", "failpoint", "network", "schema", "burst", "poison"}
