"""The offset range of a batch, from the offset log as Spark writes it."""

from pathlib import Path

import pytest

from pipelines.kafka.checkpoint import OffsetLog

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


def finish(log: Path, batch: int) -> None:
    (log / "commits").mkdir(exist_ok=True)
    (log / f"commits/{batch}").write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_a_batch_that_was_planned_and_not_finished_is_forgotten_with_its_checksum(
    log: OffsetLog, tmp_path: Path
) -> None:
    finish(tmp_path, 0)
    (tmp_path / "offsets/.1.crc").write_bytes(b"crc")
    assert log.forget_unfinished() == 1
    assert sorted(path.name for path in (tmp_path / "offsets").iterdir()) == ["0"]
    assert log.next() == {"shop.public.a": {0: 7, 1: 0}}
    assert log.forget_unfinished() is None


def test_of_a_query_that_has_finished_none_all_are_forgotten_and_where_it_began_is_not(
    log: OffsetLog, tmp_path: Path
) -> None:
    (tmp_path / "offsets/1").unlink()
    assert log.forget_unfinished() == 0
    assert (tmp_path / "sources/0/0").exists()
    assert not list((tmp_path / "offsets").iterdir())


def test_what_is_finished_stays(log: OffsetLog, tmp_path: Path) -> None:
    finish(tmp_path, 0)
    finish(tmp_path, 1)
    assert log.forget_unfinished() is None
    assert log.next() == {"shop.public.a": {0: 9, 1: 2, 2: 1}, "shop.public.b": {0: 3}}


def test_where_there_is_no_checkpoint_there_is_nothing_to_forget(tmp_path: Path) -> None:
    assert OffsetLog(tmp_path / "none").forget_unfinished() is None
