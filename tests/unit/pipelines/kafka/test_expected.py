"""Assume: which offsets of a large part are looked at, and when all of it is taken to be like them."""

import pytest

from pipelines.kafka.expected import SAMPLE_OFFSETS, beginning, ending, expected_profile
from pipelines.kafka.profile import TopicProfile
from pipelines.kafka.ranges import Ranges

FIRST = 5 + SAMPLE_OFFSETS
RANGES: Ranges = {0: (5, 250_005), 1: (7, 9)}


@pytest.mark.parametrize(
    ("what", "span", "first", "last"),
    [
        ("many", (5, 250_005), (5, FIRST), (250_005 - SAMPLE_OFFSETS, 250_005)),
        ("fewer than two samples", (5, FIRST + 3), (5, FIRST), (FIRST, FIRST + 3)),
        ("fewer than one", (7, 9), (7, 9), (9, 9)),
    ],
)
def test_both_ends_are_looked_at_and_no_offset_twice(
    what: str, span: tuple[int, int], first: tuple[int, int], last: tuple[int, int]
) -> None:
    assert (beginning({3: span}), ending({3: span})) == ({3: first}, {3: last}), what


@pytest.mark.parametrize(
    ("what", "sample"),
    [
        ("no record", None),
        ("nothing but tombstones", TopicProfile("t", RANGES, {}, {1}, rows=2, tombstones=2)),
        ("two schemas", TopicProfile("t", RANGES, {4: 9, 5: 12}, {1}, rows=9)),
        ("two schemas of keys", TopicProfile("t", RANGES, {4: 9}, {1, 2}, rows=9)),
        ("records without a key", TopicProfile("t", RANGES, {4: 9}, {1}, rows=9, unkeyed=1)),
    ],
)
def test_what_is_of_several_kinds_is_not_taken_for_the_rest(what: str, sample: TopicProfile | None) -> None:
    assert expected_profile(sample, RANGES) is None, what


def test_what_is_of_one_kind_is_taken_for_all_of_it() -> None:
    sample = TopicProfile("t", {0: (5, 105)}, {4: 104}, {1}, rows=100, tombstones=3)
    found = expected_profile(sample, RANGES)
    assert found == TopicProfile("t", dict(RANGES), {4: 250_004}, {1}, rows=250_002, assumed=True)
