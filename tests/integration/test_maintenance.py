"""Tables are kept small while they are mirrored: rows, ledger and readers never notice."""

import pytest

from tests.integration.stack import Stack


@pytest.mark.slow
def test_tables_are_rewritten_and_their_history_is_given_up_while_they_are_mirrored(stack: Stack) -> None:
    stack.sql("CREATE TABLE kept (id bigint PRIMARY KEY, note text)",
              "INSERT INTO kept SELECT g, 'a' FROM generate_series(1, 50) g")  # fmt: skip
    stack.assert_equal("kept")
    # Few commits, even if some are cut in two: after five the mirror would do by itself what is looked for here.
    for number in range(2):
        stack.sql(f"UPDATE kept SET note = 'b{number}' WHERE id <= 20", "DELETE FROM kept WHERE id % 10 = 5",
                  f"INSERT INTO kept VALUES ({100 + number}, 'c')")  # fmt: skip
        stack.lakehouse("wait")
    before = stack.lakehouse("table", "show", "kept")
    assert before["data_files"] >= 3
    assert before["health"]["partition_files"] == before["data_files"] + before["delete_files"]
    assert before["health"]["compaction_due"]
    assert before["alerts"] == []
    (need,) = stack.lakehouse("maintain", "kept", "--dry-run")["tables"]
    assert [due["task"] for due in need["due"]] == ["compact"], "much of it is deleted"
    assert need in stack.lakehouse("maintain", "--dry-run")["tables"], "of all tables"
    with stack.workload():
        done = {answer["task"]: answer for answer in stack.lakehouse("maintain", "kept", "--now")["done"]}
        assert done.keys() == {"compact", "rewrite manifests", "expire", "count values", "remove orphans"}
        assert not any(answer["error"] for answer in done.values())
        stack.moves_on(50)
    after = stack.lakehouse("table", "show", "kept")
    assert (after["data_files"], after["rows"]) == (1, before["rows"])
    assert after["health"]["compacted"] is not None
    assert after["health"]["compaction_due"] is None
    assert stack.lakehouse("maintain", "kept")["done"] == [], "nothing is due any more"
    stack.assert_equal()
    (ledger,) = stack.lakehouse("verify", "--ledger", "kept")["tables"]
    assert ledger["complete"]
