"""The running verifier: what is done to the lake behind the mirror's back is found, named and healed."""

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo, In

from tests.integration.stack import WAIT_SECONDS, Stack, wait_until

pytestmark = pytest.mark.process

EAGER = {"VERIFIER_ROWS_PER_SECOND": 1_000_000, "VERIFIER_SHARE": 1, "VERIFIER_PAUSE_SECONDS": 1,
         "VERIFIER_AGAIN_SECONDS": 1}  # fmt: skip


def _known(stack: Stack, table: str) -> dict[str, Any]:
    """What the verifier has told of the table; nothing while it hasn't met it."""
    found = stack.lakehouse("verify", "--continuous", table, ok=(0, 1, 2)).get("tables")
    return dict(found[0]) if found else {"verified_through": None, "differences": None}


def _lsn(text: str | None) -> int:
    high, low = (text or "0/0").split("/")
    return (int(high, 16) << 32) + int(low, 16)


def _position(stack: Stack) -> int:
    with stack.source() as source:
        row = source.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    return _lsn(row[0] if row else None)


def test_what_is_done_behind_the_mirrors_back_is_found_and_healed(stack: Stack) -> None:
    env = (stack.folder / ".env").read_text()
    (stack.folder / ".env").write_text(env + "".join(f"{name}={value}\n" for name, value in EAGER.items()))
    stack.up()
    stack.sql(
        "CREATE TABLE vault (code text, n int, note text, PRIMARY KEY (code, n))",
        "INSERT INTO vault SELECT 'č' || g % 7, g, 'note ' || g FROM generate_series(1, 500) g",
    )
    stack.assert_equal("vault")
    with stack.workload(rate=10):
        here = _position(stack)
        wait_until(lambda: _lsn(_known(stack, "vault")["verified_through"]) > here)
        wait_until(lambda: _lsn(_known(stack, "orders")["verified_through"]) > here)
        assert _known(stack, "orders")["differences"] == 0, "a workload is no difference"
        _tamper(stack)
        wait_until(lambda: _known(stack, "vault")["differences"] == 3)
        found = _known(stack, "vault")
        assert {(key.split(", ")[1], kind) for key, kind in found["keys"].items()} == {
            ("n=8", "differs"), ("n=150", "missing"), ("n=9000", "extra"),
        }  # fmt: skip
        log = stack.log("verifier")
        assert "n=150" in log
        assert "Traceback" not in log, "in all that came before"
        assert "tampered" not in log, "keys are named, never values"
        assert not stack.lakehouse("verify", "vault", ok=(1,))["equal"]
        healed = stack.lakehouse("heal", "vault")["tables"]
        assert [(table["table"], table["left"]) for table in healed] == [("public.vault", {"code=č1, n=9000": "extra"})]
        wait_until(lambda: _known(stack, "vault")["differences"] == 1)
        stack.sql("INSERT INTO vault VALUES ('č1', 9000, '')", "DELETE FROM vault WHERE n = 9000")
        here = _position(stack)
        wait_until(lambda: _lsn(_known(stack, "vault")["verified_through"]) > here)
        assert _known(stack, "vault")["differences"] == 0
    stack.lakehouse("wait", "--timeout", str(WAIT_SECONDS))
    # Not assert_equal, which also looks at every snapshot: those of this table tell what was done to it.
    assert stack.lakehouse("verify", "vault", "orders")["equal"]
    stack.sql("DROP TABLE vault")
    stack.catalog().drop_table("shop.vault")
    (stack.folder / ".env").write_text(env)
    stack.up()


def _tamper(stack: Stack) -> None:
    """Alter a row of the lake, delete one, and add one."""
    table = stack.catalog().load_table("shop.vault")
    rows = table.scan(In("n", {8, 150})).to_arrow().to_pylist()
    altered = next(row for row in rows if row["n"] == 8) | {"note": "tampered"}
    extra = altered | {"n": 9000}
    with table.transaction() as change:
        change.delete(In("n", {8, 150}))
        change.append(pa.Table.from_pylist([altered, extra], table.schema().as_arrow()))
    assert table.scan(EqualTo("note", "tampered")).to_arrow().num_rows == 2
