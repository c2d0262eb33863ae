"""When a running task is started anew: looks at (stored, written, sent), 15 seconds apart, and at which it is done."""

from itertools import pairwise

import pytest

from services.capture.stalls import MAX_DOUBLINGS, READING_SECONDS, STALL_SECONDS, Flow, Reading

EVERY = 15.0
STORED: dict[str, int | str] = {"lsn": 100}
SNAPSHOT: dict[str, int | str] = {"lsn": 100, "snapshot": "INITIAL", "snapshot_completed": False}
FOR_LONG = 20

Look = tuple[dict[str, int | str] | None, int, int | None]


def looked(script: list[Look]) -> tuple[Flow, list[int]]:
    flow, restarted = Flow(), []
    for number, (stored, written, sent) in enumerate(script):
        flow, start_anew = flow.observe(stored, written, sent, number * EVERY)
        if start_anew:
            restarted.append(number)
    return flow, restarted


@pytest.mark.parametrize(
    "script",
    [
        pytest.param([({"lsn": n}, n + 9, n + 9) for n in range(FOR_LONG)], id="it moves"),
        pytest.param([({"lsn": 7, "ts_usec": n}, n, n) for n in range(FOR_LONG)], id="inside one transaction"),
        pytest.param([(None, 500 + n, 500 + n) for n in range(FOR_LONG)], id="nothing is stored yet"),
        pytest.param([(SNAPSHOT, 500 + n, None) for n in range(FOR_LONG)], id="a snapshot"),
        pytest.param([(STORED, 500 + n, 300) for n in range(FOR_LONG)], id="PostgreSQL itself is busy"),
        pytest.param([(STORED, 500 + n, 500 + n) for n in range(9)], id="not for long enough"),
    ],
)
def test_a_task_that_works_is_left_alone(script: list[Look]) -> None:
    flow, restarted = looked(script)
    assert (flow.restarts, restarted) == (0, [])


def test_a_task_that_writes_nothing_of_what_was_sent_is_started_anew() -> None:
    flow, restarted = looked([(STORED, 500 + n, 500 + n) for n in range(FOR_LONG)])
    # The first look is the first to see this position, the second one has a mark that isn't in it.
    assert restarted == [1 + STALL_SECONDS / EVERY]
    assert flow.restarts == 1


def test_the_time_begins_when_all_is_sent() -> None:
    late = 6
    _, restarted = looked([(STORED, 500 + n, 900 if n >= late else 300) for n in range(FOR_LONG)])
    assert restarted == [late + STALL_SECONDS / EVERY]


def test_it_has_longer_after_each_restart_until_it_moves() -> None:
    flow, restarted = looked([(STORED, 500 + n, 500 + n) for n in range(1000)])
    # After a restart the next look notes anew what is due.
    waits = [later - earlier for earlier, later in pairwise(restarted)]
    assert waits[:MAX_DOUBLINGS] == [1 + 2**n * STALL_SECONDS / EVERY for n in range(1, MAX_DOUBLINGS + 1)]
    assert set(waits[MAX_DOUBLINGS:]) <= {1 + 2**MAX_DOUBLINGS * STALL_SECONDS / EVERY}
    moved, _ = flow.observe({"lsn": 101}, 2000, 2000, 1e6)
    assert (moved.restarts, moved.patience) == (0, STALL_SECONDS)


@pytest.mark.parametrize(
    "stored", [STORED, SNAPSHOT | {"snapshot_completed": True}], ids=["before", "after a snapshot"]
)
def test_a_task_that_runs_and_reads_nothing_is_started_anew(stored: dict[str, int | str]) -> None:
    flow, restarted = looked([(stored, 500 + n, None) for n in range(FOR_LONG)])
    assert (flow.restarts, restarted) == (1, [1 + STALL_SECONDS / EVERY])


@pytest.mark.parametrize(
    ("keys", "restarted"),
    [
        pytest.param([None] * FOR_LONG, [], id="nothing is read"),
        pytest.param(list(range(FOR_LONG)), [], id="it comes on"),
        pytest.param([1, 1, 1, 1, 2, 2, 2, 2], [], id="slowly"),
        pytest.param([1] * 14, [4, 12], id="it has ended without a word, and so has the next one"),
        pytest.param([1] * 6 + [2] * 3 + [None] * FOR_LONG, [4], id="the next task takes it up"),
    ],
)
def test_a_snapshot_that_does_not_come_on_is_taken_up_by_another_task(
    keys: list[int | None], restarted: list[int]
) -> None:
    assert READING_SECONDS == 4 * EVERY
    reading, done = Reading(), []
    for number, key in enumerate(keys):
        stored = {"lsn": number} | ({} if key is None else {"incremental_snapshot_primary_key": str(key)})
        reading, start_anew = reading.observe(stored, number * EVERY)
        if start_anew:
            done.append(number)
    assert done == restarted
