"""Periods of the first page's figures."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from lineage.periods import intervals

HOUR = timedelta(hours=1)


def test_a_day_is_its_last_24_hours_by_the_hour() -> None:
    found = intervals("DAY", None, datetime(2026, 5, 1, 12, 34, 56, tzinfo=UTC))

    assert found[0][0] == datetime(2026, 4, 30, 13, tzinfo=UTC)
    assert found[-1] == (datetime(2026, 5, 1, 12, tzinfo=UTC), datetime(2026, 5, 1, 13, tzinfo=UTC))
    assert {end - start for start, end in found} == {HOUR}
    assert len(found) == 24


def test_a_week_is_its_last_7_days_where_one_lives() -> None:
    # Clocks go forward on 29 March.
    found = intervals("WEEK", "Europe/Berlin", datetime(2026, 3, 30, 23, tzinfo=UTC))

    assert (found[0][0], found[-1][1]) == (
        datetime(2026, 3, 24, 23, tzinfo=UTC), datetime(2026, 3, 31, 22, tzinfo=UTC)
    )  # fmt: skip
    assert [(end - start) / HOUR for start, end in found] == [24, 24, 24, 24, 23, 24, 24]
    assert all(end == start for (_, end), (start, _) in pairwise(found))
