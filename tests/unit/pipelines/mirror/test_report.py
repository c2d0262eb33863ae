"""Report: the line of a batch is that of all its tables together."""

import time

from pipelines.changes.topic_batch import TopicOutcome
from pipelines.ledger.entries import Counts
from pipelines.mirror.report import batch_line


def test_a_batch_is_told_of_by_its_tables() -> None:
    first = TopicOutcome("shop.public.b", rows=3, reread=1, counts=Counts(merged=2, superseded=2), committed=True,
                    oldest_commit=time.time() - 60, ms={"decode": 5, "merge": 7})  # fmt: skip
    second = TopicOutcome("shop.public.a", rows=2, skipped=4, counts=Counts(dead_lettered=2), assumed=True,
                     oldest_commit=time.time() - 5, schema_changes=["add c"], ms={"decode": 2})  # fmt: skip
    line = batch_line(9, [first, second, TopicOutcome("shop.public.c")], 0.0014, 1.5)
    assert (line["batch"], line["ms"], line["stage_ms"]) == (9, 1500, {"profile": 1, "decode": 7, "merge": 7})
    assert list(line["rows"].items()) == [("shop.public.a", 2), ("shop.public.b", 4)], "in order, reread ones as well"
    assert (line["merged"], line["superseded"], line["dead_lettered"]) == (2, 2, 2)
    assert (line["skipped"], line["reread"], line["tables_committed"]) == (4, 1, 1)
    assert (line["schema_changes"], line["assumed"]) == ({"shop.public.a": ["add c"]}, ["shop.public.a"])
    assert 60_000 <= line["lag_ms"] < 65_000, "of the oldest change"


def test_a_batch_that_brought_no_change_has_no_lag() -> None:
    assert batch_line(1, [TopicOutcome("shop.public.a")], 0, 0)["lag_ms"] is None
