"""How long the mirror rests between two batches."""

from pipelines.pace import UPSTREAM_SECONDS, Pace


def test_a_change_that_just_missed_a_batch_is_as_fresh_as_was_asked_for() -> None:
    for took in (0.1, 1.0, 3.0):
        pause = Pace(10).pause(took, behind=False)
        assert UPSTREAM_SECONDS + took + pause + took == 10


def test_nothing_waits_where_there_is_no_time_to() -> None:
    assert Pace(10).pause(4.6, behind=False) == 0
    assert Pace(10).pause(0.1, behind=True) == 0


def test_the_slowest_of_the_last_batches_counts() -> None:
    pace = Pace(10)
    slow = pace.pause(3.0, behind=False)
    assert pace.pause(0.5, behind=False) == slow
    assert [pace.pause(0.5, behind=False) for _ in range(4)][-1] == 8
