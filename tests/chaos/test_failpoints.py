"""The mirror dies, fails or stands still at each of its steps."""

import pytest

from pipelines.failpoints import FAILPOINTS
from tests.integration.stack import Stack, wait_until

pytestmark = pytest.mark.process


@pytest.mark.parametrize("action", ["kill", "error"])
@pytest.mark.parametrize("name", FAILPOINTS)
def test_the_mirror_goes_on_after_a_failpoint(stack: Stack, name: str, action: str) -> None:
    table = f"fails_{name.replace('-', '_')}_{action}"
    stack.sql(
        f"CREATE TABLE {table} (id bigint PRIMARY KEY, note text)", f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')"
    )
    stack.assert_equal(table)
    stack.faults.on(name, action)
    _change_everything(stack, table)
    if name == "amid-rekey":
        stack.sql(f"ALTER TABLE {table} DROP CONSTRAINT {table}_pkey, ADD PRIMARY KEY (id, age)",
                  f"INSERT INTO {table} VALUES (3, 'e', 9)")  # fmt: skip
    if name.endswith(("-compaction", "-expiry")):
        stack.lakehouse("wait")
        stack.lakehouse("maintain", table, "--now", ok=(0, 1))
    wait_until(lambda: stack.fired(name))
    stack.assert_equal(table)
    assert stack.lakehouse("dlq", "list", "--topic", f"shop.public.{table}")["total"] == 1


def test_a_mirror_that_stood_still_goes_on(stack: Stack) -> None:
    stack.sql("CREATE TABLE stood (id bigint PRIMARY KEY)", "INSERT INTO stood VALUES (1)")
    stack.assert_equal("stood")
    stack.faults.on("before-merge", "pause")
    with stack.workload():
        wait_until(lambda: stack.fired("before-merge"))
        before, until = stack.positions(), stack.transactions() + 200
        wait_until(lambda: stack.transactions() > until)
        assert stack.positions() == before, "a batch ends although one of its tables waits"
        stack.faults.off("before-merge")
    stack.assert_equal()


def _change_everything(stack: Stack, table: str) -> None:
    """What makes the mirror pass all of its failpoints."""
    stack.produce(table, b"not avro")
    stack.sql(f"ALTER TABLE {table} ADD COLUMN age int DEFAULT 7", f"INSERT INTO {table} VALUES (3, 'c', 8)",
              f"UPDATE {table} SET note = 'd' WHERE id = 1", f"DELETE FROM {table} WHERE id = 2")  # fmt: skip
