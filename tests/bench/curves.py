"""Merge time of this mirror against the size of the table and of the batch."""

from tests.bench.course import Course
from tests.bench.results import MergePoint


def curve(course: Course) -> list[MergePoint]:
    """Points of the plan's sizes."""
    return []
