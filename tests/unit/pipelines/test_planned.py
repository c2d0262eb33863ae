"""The offset range of a batch, from the offset log as Spark writes it."""

from pathlib import Path

import pytest

from pipelines.planned import OffsetLog

META = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{"spark.sql.shuffle.partitions":"2"}}'


@pytest.fixture
def log(tmp_path: Path) -> OffsetLog:
    for folder in ("offsets", "sources/0"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "sources/0/0").write_text('\0v1\n{"shop.public.a":{"0":4,"1":0}}')
    for batch, offsets in enumerate(
        ('{"shop.public.a":{"0":7,"1":0}}', '{"shop.public.a":{"0":9,"1":2,"2":1},"shop.public.b":{"0":3}}')
    ):
        (tmp_path / f"offsets/{batch}").write_text(f"v1\n{META}\n{offsets}")
    return OffsetLog(tmp_path)


def test_the_first_batch_begins_where_the_query_did(log: OffsetLog) -> None:
    assert log.ranges(0) == {"shop.public.a": {0: (4, 7), 1: (0, 0)}}


def test_a_later_batch_begins_where_the_one_before_it_ended_and_what_is_new_at_nothing(log: OffsetLog) -> None:
    assert log.ranges(1) == {"shop.public.a": {0: (7, 9), 1: (0, 2), 2: (0, 1)}, "shop.public.b": {0: (0, 3)}}
