"""The SQL that is run, as it is rendered; and names that try to be more than names."""

from pipelines.merge.pruning import Pruning
from pipelines.merge.statement import MergePlan, merge_sql

PLAN = MergePlan(target="`lake`.`shop`.`t`", changes="global_temp.`c`", columns=("id", "name"), keys=("id",))
TECHNICAL = "`_kafka_partition`, `_kafka_offset`, `_lsn`, `_committed_at`, `_op`"
NEWER = "(c._lsn >= t._lsn OR c._op = 'r' OR t._op = 'r')"
SET_TECHNICAL = (
    "t.`_kafka_partition` = c.`_kafka_partition`, t.`_kafka_offset` = c.`_kafka_offset`, "
    "t.`_lsn` = c.`_lsn`, t.`_committed_at` = c.`_committed_at`, t.`_op` = c.`_op`"
)


def test_a_plain_merge() -> None:
    assert merge_sql(PLAN).splitlines() == [
        "MERGE INTO `lake`.`shop`.`t` AS t USING global_temp.`c` AS c ON t.`id` = c.`id`",
        f"WHEN MATCHED AND {NEWER} AND c.__op = 'd' THEN DELETE",
        f"WHEN MATCHED AND {NEWER} THEN UPDATE SET t.`id` = c.`id`, t.`name` = c.`name`, {SET_TECHNICAL}",
        f"WHEN NOT MATCHED AND c.__op <> 'd' THEN INSERT (`id`, `name`, {TECHNICAL}) "
        "VALUES (c.`id`, c.`name`, c.`_kafka_partition`, c.`_kafka_offset`, c.`_lsn`, c.`_committed_at`, c.`_op`)",
    ]


def test_bounds_kept_values_and_truncate() -> None:
    plan = MergePlan(**{**vars(PLAN), "toastable": ("name",), "pruning": Pruning({"id": (-3, 9)}), "truncated": 42})
    first, _, update, insert, truncate = merge_sql(plan).splitlines()
    assert first.endswith("ON t.`id` = c.`id` AND t.`id` >= -3 AND t.`id` <= 9")
    assert "t.`name` = CASE WHEN c.`__keep`.`name` THEN t.`name` ELSE c.`name` END" in update
    assert insert.startswith("WHEN NOT MATCHED AND c.__op <> 'd' AND NOT c.`__keep`.`name` THEN INSERT")
    assert truncate == "WHEN NOT MATCHED BY SOURCE AND t._lsn < 42 THEN DELETE"


def test_hostile_names_and_values_stay_names_and_values() -> None:
    name, value = "x` = 1 OR `y", "o'clock\\"
    plan = MergePlan(**{**vars(PLAN), "columns": (name,), "keys": (name,), "pruning": Pruning({name: (value, value)})})
    first = merge_sql(plan).splitlines()[0]
    assert "t.`x`` = 1 OR ``y` = c.`x`` = 1 OR ``y`" in first
    assert r"'o\'clock\\'" in first
