"""Which tables a batch commits to, and how long the mirror rests after it."""

import random
from collections.abc import Mapping

import pytest

from pipelines.mirror.pace import UPSTREAM_SECONDS, Pace


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def _pause(pace: Pace, clock: Clock, took: float, behind: bool = False) -> float:
    pace.begin()
    clock.now += took
    return pace.end(committed=True, waiting=(), behind=behind)


def test_a_change_that_just_missed_a_batch_is_as_fresh_as_was_asked_for() -> None:
    for took in (0.1, 1.0, 3.0):
        clock = Clock()
        pause = _pause(Pace(10, clock), clock, took)
        assert UPSTREAM_SECONDS + took + pause + took == pytest.approx(10)


def test_nothing_waits_where_there_is_no_time_to() -> None:
    clock = Clock()
    assert _pause(Pace(10, clock), clock, 4.6) == 0
    assert _pause(Pace(10, clock), clock, 0.1, behind=True) == 0


def test_a_batch_without_any_change_is_followed_by_the_next() -> None:
    clock = Clock()
    pace = Pace(10, clock)
    pace.add("t", 10)
    pace.begin()
    assert pace.end(committed=False, waiting=(), behind=False) == 0


def test_the_slowest_but_one_of_the_last_batches_counts() -> None:
    clock = Clock()
    pace = Pace(10, clock)
    assert _pause(pace, clock, 3.0) == pytest.approx(3)
    assert [_pause(pace, clock, 1.0) for _ in range(2)] == pytest.approx([7, 7])
    assert _pause(pace, clock, 3.0) == pytest.approx(3)
    assert [_pause(pace, clock, 1.0) for _ in range(3)] == pytest.approx([5, 7, 7])


def _commits(freshness: Mapping[str, float], seconds: float, seed: int) -> tuple[dict[str, int], dict[str, float]]:
    """What becomes of tables that change all the time: how often each is committed, and how old it gets at most."""
    clock, dice = Clock(), random.Random(seed)
    pace = Pace(10, clock)
    visible_up_to = dict.fromkeys(freshness, clock.now)
    commits, oldest = dict.fromkeys(freshness, 0), dict.fromkeys(freshness, 0.0)
    until = clock.now + seconds
    while clock.now < until:
        pace.begin()
        planned = clock.now
        waiting = {topic for topic in freshness if pace.can_wait(topic)}
        for topic, asked in freshness.items():
            pace.add(topic, asked)
        clock.now += dice.uniform(0.5, 1.0)
        for topic in freshness.keys() - waiting:
            oldest[topic] = max(oldest[topic], clock.now - visible_up_to[topic] + UPSTREAM_SECONDS)
            commits[topic] += 1
            visible_up_to[topic] = planned
        clock.now += pace.end(len(waiting) < len(freshness), waiting, behind=False)
    return commits, oldest


@pytest.mark.parametrize("seed", range(5))
def test_each_table_is_as_fresh_as_was_asked_of_it_and_hardly_fresher(seed: int) -> None:
    asked = {"fast": 5.0, "usual": 10.0, "slow": 60.0, "hourly": 900.0}
    commits, oldest = _commits(asked, 3600, seed)
    # A batch may take longer than those before it did.
    assert all(oldest[topic] <= freshness + 0.5 for topic, freshness in asked.items()), oldest
    for topic, freshness in asked.items():
        room = freshness - UPSTREAM_SECONDS - 1.0
        # A table goes along with the batch before the one that would be too late, which is at most 3 seconds earlier.
        assert commits[topic] <= 3600 / (room - min(3.0, room / 2)) + 1, (topic, commits)


def test_where_all_tables_may_be_old_topics_are_read_as_often_as_a_new_table_needs() -> None:
    clock = Clock()
    pace = Pace(10, clock)
    pace.add("slow", 600)
    _pause(pace, clock, 1.0)
    pace.begin()
    assert pace.can_wait("slow")
    assert not pace.can_wait("new")
    clock.now += 0.1
    assert pace.end(committed=False, waiting={"slow"}, behind=False) == pytest.approx(10 - 1 - 1 - 0.1)
