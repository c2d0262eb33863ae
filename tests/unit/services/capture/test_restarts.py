"""When a failed task is restarted: a script of (time, failed) and what is done."""

import pytest

from services.capture.restarts import MAX_RESTARTS, STABLE_SECONDS, Action, Restarts


def played(script: list[tuple[float, bool]], start: Restarts | None = None) -> tuple[Restarts, list[Action]]:
    restarts, actions = start or Restarts(), []
    for now, failed in script:
        restarts, action = restarts.observe(failed, now)
        if action is not Action.NOTHING:
            actions.append(action)
    return restarts, actions


FOR_EVER = [(float(second), True) for second in range(0, 300, 2)]


@pytest.mark.parametrize(
    ("script", "used", "actions"),
    [
        ([(0, False), (2, False)], 0, []),
        ([(0, True), (1, True)], 0, []),
        ([(0, True), (2, True)], 1, [Action.RESTART]),
        ([(0, True), (2, True), (4, False), (6, False)], 1, [Action.RESTART]),
        ([(0, True), (2, True), (4, False), (STABLE_SECONDS + 4, False)], 0, [Action.RESTART]),
        (FOR_EVER, MAX_RESTARTS, [Action.RESTART] * MAX_RESTARTS + [Action.GIVE_UP]),
    ],
    ids=["runs", "waits first", "restarts", "counts on", "forgets", "gives up once"],
)
def test_restarts(script: list[tuple[float, bool]], used: int, actions: list[Action]) -> None:
    restarts, seen = played(script)
    assert (restarts.used, seen) == (used, actions)


def test_waits_double() -> None:
    restarts, times = Restarts(), []
    for second in range(200):
        restarts, action = restarts.observe(True, float(second))
        if action is Action.RESTART:
            times.append(second)
    assert times == [2, 2 + 5, 7 + 9, 16 + 17, 33 + 33]


def test_a_person_can_mend_it() -> None:
    gave_up, _ = played(FOR_EVER)
    assert gave_up.gave_up
    mended, _ = played([(400, False), (400 + STABLE_SECONDS, False)], gave_up)
    assert (mended.used, mended.gave_up) == (0, False)
