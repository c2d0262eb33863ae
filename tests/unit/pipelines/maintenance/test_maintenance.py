"""What a table needs, and that nothing it is rewritten by changes its rows or its ledger."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Self, cast
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from structlog.stdlib import get_logger

from pipelines.errors import RetryBatch
from pipelines.lake.catalog import Lake
from pipelines.lake.names import MAINTENANCE
from pipelines.lake.properties import BY_FILE, BY_PARTITION, DELETE_GRANULARITY, PURGED, READING, ROW_GROUPS
from pipelines.ledger.entries import Counts, add_up, commit_entries, ledger_problems
from pipelines.ledger.table_ledger import TableLedger
from pipelines.maintenance import health, plan, work
from pipelines.maintenance import keeper as keeping
from pipelines.maintenance.health import MIB, Health
from pipelines.maintenance.keeper import Keeper, Task
from pipelines.maintenance.plan import (
    COMPACT,
    DELETES,
    EXPIRE,
    HOUR,
    MANIFESTS,
    MINUTE,
    ORPHANS,
    STATISTICS,
    DueTask,
    RequestKind,
    compaction,
    counted_columns,
    deletes,
    expiry,
    keeps_since,
    manifests,
    statistics,
    tag,
)
from pipelines.maintenance.record import Record
from pipelines.maintenance.rounds import OVERDUE, SOON, Maintenance
from pipelines.maintenance.work import COUNTED, TaskResult
from pipelines.metrics.meter import Meter
from pipelines.mirror.table.mirror import TableMirror
from pipelines.specs.layout import Layout
from pipelines.specs.load import Defaults, Specs
from pipelines.specs.upkeep import Upkeep, own_upkeep
from tests.unit.pipelines.harness import Topic, create, delete, update

POLICY = Upkeep()
COMPACTIONS = [
    ("new and whole", Health(1000, 0, 1, 0, MIB), 0, False),
    ("a few small files", Health(1000, 50, 4, 4, MIB), 0, False),
    ("many small files", Health(1000, 50, 10, 10, MIB), 0, True),
    ("as many as the last compaction had left", Health(1000, 50, 10, 10, MIB), 20, False),
    ("much is deleted", Health(1000, 500, 1, 1, MIB), 0, True),
    ("large files, with many of deletes", Health(10**9, 0, 10, 16, 10 * 512 * MIB), 0, True),
    ("large files, each with one of deletes", Health(10**9, 0, 16, 16, 16 * 512 * MIB), 0, False),
    ("large files, which cost little to open", Health(10**9, 0, 40, 0, 40 * 512 * MIB), 0, False),
]


@pytest.mark.parametrize(("label", "found", "before", "due"), COMPACTIONS, ids=[case[0] for case in COMPACTIONS])
def test_a_table_is_rewritten_when_that_pays(label: str, found: Health, before: int, due: bool) -> None:
    assert (compaction(POLICY, found, before) is not None) is due


@pytest.mark.parametrize(
    ("files", "now", "wanted"),
    [(1, BY_PARTITION, None), (1, BY_FILE, BY_PARTITION), (1, None, BY_PARTITION), (20, BY_PARTITION, None),
     (20, BY_FILE, None), (33, BY_PARTITION, BY_FILE), (33, BY_FILE, None), (33, None, BY_FILE)],
)  # fmt: skip
def test_of_many_files_each_has_its_deletes_by_itself(files: int, now: str | None, wanted: str | None) -> None:
    due = deletes(Health(data_files=files), now)
    assert (due is None) == (wanted is None)
    partitioned = Health(data_files=10 * files, partitions=(Health(data_files=1), Health(data_files=files)))
    assert (deletes(partitioned, now) is None) == (wanted is None)


def test_a_small_tables_files_are_small() -> None:
    largest = 512 * MIB
    sizes = [Health(bytes=size * MIB).target_bytes(largest) // MIB for size in (1, 200, 1600, 10**6)]
    assert sizes == [16, 25, 200, 512]


def test_snapshots_are_given_up_once_there_are_enough_old_ones() -> None:
    now = 1_000_000 * MINUTE
    recent = [now - minutes * MINUTE for minutes in range(60)]
    old = [now - minutes * MINUTE for minutes in range(61, 81)]
    assert expiry(POLICY, recent, now) is None
    assert expiry(POLICY, [*recent, *old[:-1]], now) is None
    assert expiry(POLICY, [*recent, *old], now) is not None
    assert expiry(POLICY, old, now) is None, "so many are always kept"


def test_of_snapshots_that_come_fast_only_so_many_are_kept() -> None:
    now, policy = 1_000_000 * MINUTE, POLICY.model_copy(update={"most_snapshots": 100})
    seconds = [now - 1000 * second for second in range(120)]
    assert keeps_since(policy, seconds, now) == seconds[99]
    assert expiry(policy, seconds[:-1], now) is None
    due = expiry(policy, seconds, now)
    assert due is not None
    assert due.why == "20 of 120 snapshots are more than the newest 100"
    assert expiry(POLICY, seconds, now) is None
    # Of tags that are kept for longer none counts.
    hours = [now - hour * 60 * MINUTE for hour in range(2, 168)]
    assert keeps_since(policy, [*hours, *seconds], now) == seconds[99]


def test_an_hour_has_one_tag() -> None:
    name = tag([], 0)
    assert name == "hour-19700101T00"
    assert tag([name], 59 * MINUTE) is None
    assert tag([name], 60 * MINUTE) == "hour-19700101T01"


def test_manifests_are_rewritten_once_many_have_come() -> None:
    assert manifests(POLICY, Health(manifests=39), 0) is None
    assert manifests(POLICY, Health(manifests=40), 0) is not None
    assert manifests(POLICY, Health(manifests=40), 1) is None, "one is what the last rewriting had left"


def test_values_of_a_large_table_are_counted_once_a_day() -> None:
    large, now = Health(bytes=64 * MIB), 1_000_000 * MINUTE
    assert statistics(POLICY, Health(bytes=64 * MIB - 1), None, now) is None
    assert statistics(POLICY, large, None, now) is not None
    assert statistics(POLICY, large, now - 24 * HOUR + 1, now) is None
    assert statistics(POLICY, large, now - 24 * HOUR, now) is not None


def test_the_columns_are_counted_that_rows_are_found_by() -> None:
    layout = Layout(partition=("month(day)", "bucket(4, id)"), sort=("name", "gone"))
    assert counted_columns(["id"], layout, {"id", "day", "name", "note"}) == ["id", "day", "name"]
    assert counted_columns([], Layout(), {"note"}) == []


def test_the_mirrors_own_tables_keep_enough_snapshots_however_few_are_asked_for() -> None:
    assert own_upkeep(Upkeep(snapshots=2, files=5)) == Upkeep(snapshots=20, files=5)
    assert own_upkeep(Upkeep(snapshots=30)).snapshots == 30


class Later:
    """A clock that is so many minutes ahead."""

    def __init__(self, minutes: int) -> None:
        self.minutes = minutes

    def __call__(self) -> float:
        return time.time() + self.minutes * 60


def telling(account: TableLedger) -> Callable[[], None]:
    return lambda: account.commit_state(account.reached, 9, balanced=True)


def test_rows_and_ledger_survive_their_upkeep(spark: SparkSession) -> None:
    topic, policy = Topic(spark), Upkeep(files=5, snapshots=3, sort="key")
    mirror = topic.mirror()
    for number in range(8):
        events = [create(10 * number + 1, number, "a"), update(10 * number + 2, max(0, number - 1), f"b{number}")]
        topic.apply(mirror, topic.batch(events), number)
    topic.apply(mirror, topic.batch([delete(90, 3)]), 8)
    rows, counts = topic.rows(), topic.assert_ledger_is_whole()
    keeper, account = Keeper(policy, clock=Later(90)), TableLedger("mirror", "shop", topic.table)
    account.load(Lake(spark))
    before = account.known
    assert [due.task for due in keeper.due(account.table, spark)] == [COMPACT, EXPIRE]

    compacted, expired = (
        keeper.do(due, account.table, spark, telling(account)) for due in keeper.due(account.table, spark)
    )
    assert compacted.before.files > 9
    assert (compacted.after.data_files, compacted.after.delete_files, compacted.after.deleted) == (1, 0, 0)
    assert compacted.after.records == len(rows)
    assert (expired.done.removed, expired.after.snapshots) == (expired.before.snapshots + 1 - 3, 3)
    assert keeper.due(account.table, spark) == []
    assert topic.rows() == rows
    account.load(Lake(spark))
    assert account.known == before
    history = commit_entries(topic.summaries())
    assert ledger_problems(history, complete=False) == []
    assert add_up(history).counts == counts
    # The mirror goes on with it, and what it says then is added to the total.
    topic.apply(topic.mirror(), topic.batch([update(100, 1, "z")]), 10)
    history = commit_entries(topic.summaries())
    assert ledger_problems(history, complete=False) == []
    assert add_up(history).counts == counts + Counts(merged=1)
    assert {key: name for key, name, _ in topic.rows()}[1] == "z"


def test_what_tags_keep_isn_t_given_up_again_and_again(spark: SparkSession) -> None:
    topic = Topic(spark)
    mirror = topic.mirror()
    for number in range(8):
        topic.apply(mirror, topic.batch([create(number + 1, number, "a")]), number)
        if number < 4:
            table = topic.lake_table()
            table.java.manageSnapshots().createTag(f"kept {number}", table.snapshot_id).commit()
    keeper, account = (
        Keeper(Upkeep(snapshots=2, files=100), clock=Later(90)),
        TableLedger("mirror", "shop", topic.table),
    )
    account.load(Lake(spark))
    (due,) = keeper.due(account.table, spark)
    assert due.task == EXPIRE
    assert keeper.do(due, account.table, spark, telling(account)).after.snapshots == 6
    assert keeper.due(account.table, spark) == []


def test_a_purge_leaves_no_file_in_which_a_row_was_that_isn_t_there_any_more(spark: SparkSession) -> None:
    topic, policy = Topic(spark), Upkeep()
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(number, number, f"name {number}") for number in range(1, 9)]), 0)
    topic.apply(mirror, topic.batch([delete(10, 3), update(11, 5, "other")]), 1)
    account, keeper = TableLedger("mirror", "shop", topic.table), Keeper(policy)
    account.load(Lake(spark))
    table = account.table
    assert table is not None
    table.java.manageSnapshots().createTag("before", table.snapshot_id).commit()
    rows, counts = topic.rows(), topic.assert_ledger_is_whole()
    assert {"name 3", "name 5"} < _kept(topic)

    (due,) = keeper.due(table, spark, RequestKind.PURGE)
    task = keeper.do(due, table, spark, telling(account))
    assert task.after.snapshots == 1
    assert table.branches == {"main"}
    assert topic.rows() == rows
    assert _kept(topic) == {name for _, name, _ in rows}
    assert int(table.properties[PURGED]) <= time.time() * 1000
    # Manifests tell the least and greatest values of files, of those that are gone as well.
    listed = spark.table(f"lake.shop.{topic.table}.entries").collect()
    assert {row.status for row in listed} <= {0, 1}
    known = table.java.currentSnapshot().allManifests(table.java.io()).size()
    assert len(list(Path(table.java.location()).glob("metadata/*-m*.avro"))) == known
    history = commit_entries(topic.summaries())
    assert ledger_problems(history, complete=False) == []
    assert add_up(history).counts == counts


def _kept(topic: Topic) -> set[str]:
    """The names in any data file of the table's folder, whether a snapshot knows it or not."""
    files = Path(topic.lake_table().java.location()).glob("data/**/*.parquet")
    return {row["name"] for path in files if "deletes" not in path.name for row in pq.read_table(path).to_pylist()}


def test_files_that_are_large_enough_are_left_alone(spark: SparkSession) -> None:
    topic, policy = Topic(spark), Upkeep(files=2, delete_share=0.5)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(n, n, "a" * 20) for n in range(1, 2_001)]), 0)
    (large,) = _data_files(topic)
    for number in range(1, 5):
        topic.apply(mirror, topic.batch([delete(3_000 + number, number), create(4_000 + number, -number, "b")]), number)
    keeper, account = Keeper(policy), TableLedger("mirror", "shop", topic.table)
    account.load(Lake(spark))
    assert (account.table.summary["total-data-files"], account.table.summary["total-delete-files"]) == ("5", "4")
    rows = topic.rows()
    # The first file is larger than files of such a table shall be.
    with patch.object(health, "SMALLEST_TARGET", int(account.table.summary["total-files-size"]) // 3):
        (due,) = keeper.due(account.table, spark)
        done = keeper.do(due, account.table, spark, telling(account))
    assert (done.after.data_files, done.after.delete_files, done.after.deleted) == (2, 1, 4)
    assert large in _data_files(topic)
    assert topic.rows() == rows


def test_of_files_whose_deletes_are_together_those_are_written_anew_of_which_much_is_deleted(
    spark: SparkSession,
) -> None:
    topic = Topic(spark)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(n, n, "a" * 20) for n in range(1, 1_001)]), 0)
    (first,) = _data_files(topic)
    topic.apply(mirror, topic.batch([create(n, n, "a" * 20) for n in range(1_001, 2_001)]), 1)
    (second,) = set(_data_files(topic)) - {first}
    # A third of the first file, and a hundredth of the second.
    topic.apply(mirror, topic.batch([delete(3_000 + n, n) for n in range(1, 301)]), 2)
    topic.apply(mirror, topic.batch([delete(4_000 + n, n) for n in (*range(301, 334), *range(1_001, 1_011))]), 3)
    keeper, account, rows = Keeper(Upkeep()), TableLedger("mirror", "shop", topic.table), topic.rows()

    def upkeep() -> list[str]:
        account.load(Lake(spark))
        tasks = keeper.due(account.table, spark)
        for due in tasks:
            keeper.do(due, account.table, spark, telling(account))
        account.load(Lake(spark))
        assert topic.rows() == rows
        return [due.task for due in tasks]

    # Files of this size are neither small nor large; and what is more than nothing is packed by Spark.
    size = Path(first.removeprefix("file:")).stat().st_size
    with patch.object(health, "SMALLEST_TARGET", size), patch.object(work, "PACKED_BYTES", 0):
        with patch.object(work, "failpoint", side_effect=RetryBatch("before it")), pytest.raises(RetryBatch):
            upkeep()
        account.load(Lake(spark))
        assert account.table.properties[DELETE_GRANULARITY] == BY_FILE
        assert upkeep() == [DELETES, COMPACT]
        assert upkeep() == []
    assert account.table.properties[DELETE_GRANULARITY] == BY_PARTITION
    totals = {
        name: account.table.summary[f"total-{name}"] for name in ("data-files", "delete-files", "position-deletes")
    }
    assert totals == {"data-files": "2", "delete-files": "1", "position-deletes": "10"}
    assert second in _data_files(topic)
    assert first not in _data_files(topic)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.slow
def test_what_is_written_anew_for_its_deletes_is_written_piece_by_piece(spark: SparkSession, together: bool) -> None:
    topic = Topic(spark)
    mirror = topic.mirror()
    for first in (1, 1_001, 2_001):
        topic.apply(mirror, topic.batch([create(n, n, "a" * 20) for n in range(first, first + 1_000)]), first)
    # Of the files a fifth, a third, and a twenty-fifth.
    gone = [*range(1, 201), *range(1_001, 1_331), *range(2_001, 2_041)]
    topic.apply(mirror, topic.batch([delete(4_000 + n, n) for n in gone]), 4_000)
    rows, files = topic.rows(), _data_files(topic)
    smallest = Path(files[0].removeprefix("file:")).stat().st_size
    keeper, account = Keeper(Upkeep(delete_share=0.05)), TableLedger("mirror", "shop", topic.table)
    account.load(Lake(spark))
    if not together:
        work.lay_out_deletes(spark, account.table)

    def left() -> tuple[int, list[bool]]:
        """How many of the files are left after another compaction that is due, and what it says of that."""
        account.load(Lake(spark))
        with patch.object(health, "SMALLEST_TARGET", smallest), patch.object(plan, "MOST_FILES_TOGETHER", 2 + together):
            tasks = [keeper.do(due, account.table, spark, telling(account)) for due in keeper.due(account.table, spark)]
        assert topic.rows() == rows
        return len(set(files) & set(_data_files(topic))), [task.done.left for task in tasks]

    with patch.object(keeping, "PIECE_BYTES", 1):
        assert [left(), left(), left()] == [(2, [True]), (1, [False]), (1, [])]
    # After a backlog what little is deleted goes, too.
    account.load(Lake(spark))
    for due in keeper.due(account.table, spark, caught_up=True):
        task = keeper.do(due, account.table, spark, telling(account), caught_up=True)
    assert (task.due.task, task.after.deleted, task.done.left, topic.rows()) == (COMPACT, 0, False, rows)


@pytest.mark.slow
def test_a_large_file_s_turn_comes_though_more_is_deleted_of_small_ones(spark: SparkSession) -> None:
    topic = Topic(spark)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(n, n, "a" * 20) for n in range(1, 2_001)]), 0)
    (large,) = _data_files(topic)
    for first in (3_001, 3_101):
        topic.apply(mirror, topic.batch([create(n, n, "b") for n in range(first, first + 10)]), first)
    gone = [*range(1, 301), *range(3_001, 3_007), *range(3_101, 3_107)]
    topic.apply(mirror, topic.batch([delete(4_000 + n, n) for n in gone]), 9_000)
    rows, keeper, account = topic.rows(), Keeper(Upkeep(delete_share=0.1)), TableLedger("mirror", "shop", topic.table)
    account.load(Lake(spark))
    (due,) = keeper.due(account.table, spark)
    size = Path(large.removeprefix("file:")).stat().st_size
    with patch.object(health, "SMALLEST_TARGET", size), patch.object(keeping, "PIECE_BYTES", 1):
        task = keeper.do(due, account.table, spark, telling(account))
    assert due.why == "15% of its rows are deleted"
    assert (task.after.deleted, task.done.left, topic.rows()) == (0, False, rows)
    assert large not in _data_files(topic)


def test_deletes_are_kept_together_until_there_are_many_files(spark: SparkSession) -> None:
    topic = Topic(spark)
    mirror = topic.mirror()
    for number in range(4):
        topic.apply(mirror, topic.batch([create(2 * number + n, 2 * number + n, "a") for n in (1, 2)]), number)
    for number in range(4):
        topic.apply(mirror, topic.batch([delete(10 + number, 2 * number + 1), update(20 + number, 8, "b")]), 4 + number)
    keeper, account, rows = (
        Keeper(Upkeep(files=100, delete_share=1)),
        TableLedger("mirror", "shop", topic.table),
        topic.rows(),
    )

    def laid_out(most: int) -> tuple[str, int, int]:
        account.load(Lake(spark))
        with patch.object(plan, "MOST_FILES_TOGETHER", most):
            (due,) = keeper.due(account.table, spark)
            done = keeper.do(due, account.table, spark, telling(account))
            assert keeper.due(account.table, spark) == []
        assert (due.task, topic.rows()) == (DELETES, rows)
        return account.table.properties[DELETE_GRANULARITY], done.before.delete_files, done.after.delete_files

    # A row of each of the first four files is deleted, the last row four times changed.
    assert laid_out(most=3) == (BY_FILE, 4, 7)
    assert laid_out(most=100) == (BY_PARTITION, 7, 1)
    topic.apply(mirror, topic.batch([delete(30, 2)]), 8)
    assert topic.rows() == [row for row in rows if row[0] != 2]


@pytest.mark.parametrize("own", [{}, {ROW_GROUPS: "65536"}])
@pytest.mark.slow
def test_a_compacted_file_is_read_in_parts(spark: SparkSession, own: dict[str, str]) -> None:
    topic, draw = Topic(spark), Random(1)
    mirror = topic.mirror()
    for number in range(3):
        first = 1000 * number
        events = [create(first + n, first + n, f"{draw.getrandbits(800):x}") for n in range(1, 1001)]
        topic.apply(mirror, topic.batch(events), number)
    account, rows = TableLedger("mirror", "shop", topic.table), topic.rows()
    account.load(Lake(spark))
    assert account.table.properties.items() >= READING.items()
    # As a table from before there was such a property, or whose owner knows better.
    account.table.set_properties(own, remove=READING.keys() - own.keys())
    account.load(Lake(spark))
    keeper = Keeper(Upkeep(files=2))
    (due,) = keeper.due(account.table, spark)
    keeper.do(due, account.table, spark, telling(account))
    assert (due.task, topic.rows()) == (COMPACT, rows)
    assert account.table.properties.items() >= (READING | own).items()
    (file,) = _data_files(topic)
    assert (pq.read_metadata(file.removeprefix("file:")).num_row_groups > 1) is bool(own)


def _data_files(topic: Topic) -> list[str]:
    return [row.file_path for row in topic.spark.table(f"lake.shop.{topic.table}.data_files").collect()]


def test_a_file_that_no_snapshot_knows_goes_once_it_is_old(spark: SparkSession) -> None:
    topic = Topic(spark)
    topic.apply(topic.mirror(), topic.batch([create(1, 1, "a")]), 0)
    account = TableLedger("mirror", "shop", topic.table)
    account.load(Lake(spark))
    orphan = Path(account.table.java.location()) / "data/orphan.parquet"
    orphan.write_bytes(b"left by a killed writer")
    for minutes, removed in ((25 * 60, 0), (4 * 24 * 60, 1)):
        keeper = Keeper(POLICY, clock=Later(minutes), _orphans_removed_at=0)
        assert [due.task for due in keeper.due(account.table, spark)] == [ORPHANS]
        assert (
            keeper.do(keeper.due(account.table, spark)[0], account.table, spark, telling(account)).done.removed
            == removed
        )
        assert keeper.due(account.table, spark) == []
    assert not orphan.exists()
    assert topic.rows() == [(1, "a", "d")]


def test_a_table_with_partitions_is_compacted_where_one_of_them_needs_it(spark: SparkSession) -> None:
    topic = Topic(spark)
    policy = Upkeep(files=4, delete_share=0.9)
    mirror = topic.mirror(layout=Layout(partition=("truncate(1, name)",)))
    for number in range(9):
        hot = [create(10 * number + 1, number, f"a{number}")]
        cold = [create(10 * number + 2, 100 + number, f"{number}")] if number < 3 else []
        topic.apply(mirror, topic.batch([*hot, *cold]), number)
    rows = topic.rows()
    keeper, account = Keeper(policy), TableLedger("mirror", "shop", topic.table)
    account.load(Lake(spark))
    (due,) = keeper.due(account.table, spark)
    assert due.why.startswith("1 of 4 partitions: in one, a scan costs")
    done = keeper.do(due, account.table, spark, telling(account))
    assert (done.before.data_files, done.after.data_files) == (12, 4)
    assert keeper.due(account.table, spark) == [], "a file a partition is as few as there can be"
    assert topic.rows() == rows


def test_partitions_that_need_nothing_leave_a_table_alone_however_many_they_are() -> None:
    small = Health(records=10, data_files=1, bytes=MIB)
    many = Health(records=1000, data_files=100, bytes=100 * MIB, partitions=(small,) * 100)
    assert compaction(POLICY, many, 0) is None
    assert many.fewest_files(512 * MIB) == 100
    assert many.scan_cost(512 * MIB) == 1
    worn = Health(records=10, deleted=9, data_files=1, delete_files=1, bytes=MIB)
    found = compaction(POLICY, Health(records=1000, data_files=100, bytes=100 * MIB, partitions=(small, worn)), 0)
    assert found is not None
    assert found.why == "1 of 2 partitions: in one, 90% of its rows are deleted"


def test_files_are_listed_in_few_manifests_and_rows_and_ledger_stay(spark: SparkSession) -> None:
    topic, policy = Topic(spark), Upkeep(files=100, manifests=4, delete_share=1)
    mirror = topic.mirror()
    for number in range(4):
        topic.apply(
            mirror, topic.batch([create(10 * number + 1, number, "a"), update(10 * number + 2, 0, "b")]), number
        )
    rows, counts = topic.rows(), topic.assert_ledger_is_whole()
    keeper, account = Keeper(policy), TableLedger("mirror", "shop", topic.table)
    account.load(Lake(spark))
    (due,) = keeper.due(account.table, spark)
    assert due.task == MANIFESTS
    task = keeper.do(due, account.table, spark, telling(account))
    assert task.before.manifests >= 4
    # Data and deletes have manifests of their own.
    assert task.after.manifests == 2
    assert keeper.due(account.table, spark) == []
    topic.apply(topic.mirror(), topic.batch([update(100, 2, "z"), delete(101, 1)]), 5)
    assert [(key, name) for key, name, _ in topic.rows()] == [(0, "b"), (2, "z"), (3, "a")]
    assert len(rows) == 4
    assert topic.assert_ledger_is_whole() == counts + Counts(merged=2)


@pytest.mark.slow
def test_values_are_counted_and_outlive_the_snapshots(spark: SparkSession) -> None:
    topic = Topic(spark)
    policy = Upkeep(statistics_mib=0, snapshots=2)
    topic.apply(topic.mirror(), topic.batch([create(k, k, f"n{k % 3}") for k in range(1, 31)]), 0)
    keeper, account = Keeper(policy, Layout(sort=("name",))), TableLedger("mirror", "shop", topic.table)
    account.load(Lake(spark))
    (due,) = keeper.due(account.table, spark)
    assert due.task == STATISTICS
    keeper.do(due, account.table, spark, telling(account))
    assert keeper.due(account.table, spark) == []
    for number in range(1, 5):
        topic.apply(topic.mirror(), topic.batch([update(100 + number, number, "z")]), number)
    later = Keeper(policy, Layout(sort=("name",)), clock=Later(90))
    account.load(Lake(spark))
    (expire,) = [due for due in later.due(account.table, spark) if due.task == EXPIRE]
    later.do(expire, account.table, spark, telling(account))
    assert topic.lake_table().java.refs()[COUNTED].maxRefAgeMs() == 48 * 60 * MINUTE
    (file,) = topic.lake_table().java.statisticsFiles()
    counted = {tuple(blob.fields()): blob.properties()["ndv"] for blob in file.blobMetadata()}
    columns = {field.name(): field.fieldId() for field in topic.lake_table().java.schema().columns()}
    assert counted == {(columns["id"],): "30", (columns["name"],): "3"}
    assert STATISTICS not in {due.task for due in later.due(account.table, spark)}
    assert STATISTICS in {due.task for due in Keeper(policy, clock=Later(25 * 60)).due(account.table, spark)}


def test_the_mirrors_own_tables_are_kept_small_too(spark: SparkSession) -> None:
    seconds = [0.0]
    record, meter = Record(spark), Meter("mirror")
    upkeep = Maintenance(spark, Specs(Defaults(), {}), get_logger(), meter, clock=lambda: seconds[0])
    for number in range(POLICY.files + 1):
        record.failed(f"shop.t{number}", DueTask(COMPACT, "asked for"), "no", None)
        record.flush()
    table = Lake(spark).table("lakehouse", MAINTENANCE)
    assert table is not None
    assert int(table.summary["total-data-files"]) > POLICY.files
    upkeep.run({}, 1, until=1000)
    seconds[0] = 700.0
    upkeep.run({}, 2, until=1000)
    rows = spark.table("lake.lakehouse.maintenance").select("table", "task", "error").collect()
    assert ("lakehouse.maintenance", COMPACT, None) in {tuple(row) for row in rows}
    assert len(rows) == POLICY.files + 2
    (files,) = {row.files_after for row in spark.table("lake.lakehouse.maintenance").where("error IS NULL").collect()}
    assert files == 1


def test_where_there_is_no_time_to_spare_one_table_a_round_is_worked_on(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    needing, looked = {"a", "b", "c"}, list[str]()

    def look(_: Maintenance, topic: str, _mirror: object, _batch: int, _arrived: bool) -> bool:
        looked.append(topic)
        upkeep._commits[topic] = 0
        return topic in needing

    monkeypatch.setattr(Maintenance, "_look", look)
    upkeep = Maintenance(spark, Specs(Defaults(), {}), get_logger(), Meter("mirror"), clock=lambda: 100.0)
    tables = {name: cast(TableMirror, SimpleNamespace(lake_name=f"shop.{name}")) for name in ("idle", "a", "b", "c")}

    def all_are_overdue() -> None:
        for name in [*tables] * OVERDUE:
            upkeep.committed(name)

    all_are_overdue()
    rounds = []
    for _ in range(4):
        upkeep.run(tables, 1, until=99.0)
        rounds.append(looked.copy())
        looked.clear()
    assert rounds == [["idle", "a"], ["b"], ["c"], []], "what needs nothing takes no round"
    all_are_overdue()
    upkeep.run(tables, 1, until=101.0)
    assert looked == ["idle", "a", "b", "c"], "in time all are"


class Rounds:
    """Maintenance of tables that don't exist: which were worked on, and whether as after a backlog."""

    def __init__(self, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.left = True
        self._worked: list[tuple[str, bool]] = []
        self._tables = {name: cast(TableMirror, _Untouched(name)) for name in names}
        self._upkeep = Maintenance(spark, Specs(Defaults(), {}), get_logger(), Meter("mirror"), clock=lambda: 100.0)
        monkeypatch.setattr(Keeper, "due", lambda *_: [DueTask(COMPACT, "always")])
        monkeypatch.setattr(Keeper, "do", self._do)
        monkeypatch.setattr(Record, "done", lambda *_: None)

    def run(self, until: float, arrived: bool = False, **commits: int) -> list[tuple[str, bool]]:
        """Another round, after so many commits of each table."""
        for name, number in commits.items():
            for _ in range(number):
                self._upkeep.committed(name)
        self._worked = []
        self._upkeep.run(self._tables, 1, until, arrived)
        return self._worked

    def _do(self, due: DueTask, table: str, _session: object, _tell: object, arrived: bool) -> Task:
        self._worked.append((table, arrived))
        return Task(table, due, TaskResult(left=self.left), Health(), Health(), 0.0)


class _Untouched:
    """What there is of a table where nothing is done with it."""

    def __init__(self, name: str) -> None:
        self.table, self.lake_name, self.source_table = name, f"shop.{name}", ("public", name)

    @contextmanager
    def between_batches(self, _session: object) -> Iterator[Self]:
        yield self


def test_what_is_left_of_a_compaction_comes_as_soon_as_there_is_time(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = Rounds(spark, monkeypatch, "a", "b")
    assert rounds.run(until=101.0, a=SOON, b=SOON - 1) == [("a", False)]
    assert rounds.run(until=99.0, a=1) == [], "batches come first"
    rounds.left = False
    assert rounds.run(until=101.0) == [("a", False)]
    assert rounds.run(until=101.0) == []


def test_after_a_backlog_every_table_that_it_came_into_is_put_in_order(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = Rounds(spark, monkeypatch, "a", "b", "c")
    assert rounds.run(until=101.0, arrived=True, a=1, b=SOON) == [("b", True), ("a", True)]
    rounds.left = False
    assert sorted(rounds.run(until=101.0)) == [("a", False), ("b", False)]
    assert rounds.run(until=101.0) == []
