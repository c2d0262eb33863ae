"""The running verifier: what is done to the lake behind the mirror's back is found, named, explained and healed."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import BooleanExpression, EqualTo, In

from tests.integration.stack import WAIT_SECONDS, Stack, wait_until

pytestmark = pytest.mark.process

EAGER = {"VERIFIER_ROWS_PER_SECOND": 1_000_000, "VERIFIER_SHARE": 1, "VERIFIER_PAUSE_SECONDS": 1,
         "VERIFIER_AGAIN_SECONDS": 1}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _eager(stack: Stack) -> Iterator[None]:
    env = (stack.folder / ".env").read_text()
    (stack.folder / ".env").write_text(env + "".join(f"{name}={value}\n" for name, value in EAGER.items()))
    stack.up()
    yield
    (stack.folder / ".env").write_text(env)
    stack.up()


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


def test_a_large_table_without_a_key_is_counted_and_summed_up(stack: Stack) -> None:
    stack.sql(
        "CREATE TABLE heap (n int, note text, amount numeric(10,2), at timestamptz, tags text[])",
        "INSERT INTO heap SELECT g % 9000, 'note ' || g % 50, g / 7.0, to_timestamp(g % 100), ARRAY['a', NULL]"
        " FROM generate_series(1, 25000) g",
    )
    stack.assert_equal("heap")
    stack.sql("UPDATE heap SET note = 'changed' WHERE n < 40", "DELETE FROM heap WHERE n = 50")
    _verified(stack, "heap")
    assert _known(stack, "heap")["not_compared"] is None
    rows = stack.catalog().load_table("shop.heap").scan(EqualTo("n", 77)).to_arrow().to_pylist()
    with stack.workload(rate=10):
        _replace(stack, "heap", EqualTo("n", 77), [rows[0] | {"note": "tampered"}, *rows[1:]])
        wait_until(lambda: _known(stack, "heap")["differences"] == 1)
    found = _known(stack, "heap")
    with stack.source() as source:
        (count,) = source.execute("SELECT count(*) FROM heap").fetchone() or (0,)
    assert count > 20_000
    assert found["counts"] == {"source": count, "lake": count}, "no row is missing, and one is another"
    assert [each["cause"] for each in found["explanation"]] == ["unexplained"]
    assert f"at least 1; {count:,} rows in the source, {count:,} in the lake" in stack.status()
    assert "`lakehouse verify heap` names the rows" in stack.log("verifier")
    (report,) = stack.lakehouse("verify", "heap", ok=(1,))["tables"]
    assert (report["missing"], report["extra"]) == (1, 1)
    (healing,) = stack.lakehouse("heal", "heap")["tables"]
    assert "lakehouse resync public.heap" in healing["problems"][0]
    _replace(stack, "heap", EqualTo("n", 77), rows)
    _verified(stack, "heap")
    stack.sql("DROP TABLE heap")
    stack.catalog().drop_table("shop.heap")


def test_a_difference_is_told_with_what_explains_it(stack: Stack) -> None:
    stack.sql(
        "CREATE TABLE priced (id int PRIMARY KEY, price numeric(10,2))",
        "INSERT INTO priced VALUES (1, 1.5), (2, 2.5), (3, 'NaN')",
    )
    wait_until(lambda: _known(stack, "priced")["differences"] == 1)
    (letter,) = _known(stack, "priced")["explanation"]
    assert (letter["cause"], letter["next"]) == ("dead letters", "`lakehouse dlq list --topic shop.public.priced`")
    assert letter["text"].startswith("1 open dead letter of it: 1 ")
    assert letter["text"] in stack.status()
    assert letter["text"] in stack.log("verifier")
    assert stack.lakehouse("verify", "priced", ok=(1,))["tables"][0]["explanation"] == [letter]
    assert stack.report()["verifier"]["explanations"]["public.priced"] == [letter]
    stack.lakehouse("dlq", "discard", "--topic", "shop.public.priced", "--because", "sent by a test")
    stack.sql("UPDATE priced SET price = 3.5 WHERE id = 3")
    _verified(stack, "priced")
    (row,) = stack.catalog().load_table("shop.priced").scan(EqualTo("id", 2)).to_arrow().to_pylist()
    _replace(stack, "priced", EqualTo("id", 2), [row | {"id": 2000}])
    wait_until(lambda: _known(stack, "priced")["differences"] == 2)
    assert [each["cause"] for each in _known(stack, "priced")["explanation"]] == ["unexplained"]
    assert "unexplained" in stack.status()
    assert "unexplained" in stack.log("verifier")
    stack.sql("DROP TABLE priced")
    stack.catalog().drop_table("shop.priced")


def _verified(stack: Stack, table: str) -> None:
    """Return once the verifier has found the table equal as it is now."""
    here = _position(stack)
    wait_until(lambda: _lsn(_known(stack, table)["verified_through"]) > here)
    assert _known(stack, table)["differences"] == 0


def _tamper(stack: Stack) -> None:
    """Alter a row of the lake, delete one, and add one."""
    table = stack.catalog().load_table("shop.vault")
    rows = table.scan(In("n", {8, 150})).to_arrow().to_pylist()
    altered = next(row for row in rows if row["n"] == 8) | {"note": "tampered"}
    _replace(stack, "vault", In("n", {8, 150}), [altered, altered | {"n": 9000}])
    assert table.refresh().scan(EqualTo("note", "tampered")).to_arrow().num_rows == 2


def _replace(stack: Stack, name: str, condition: BooleanExpression, rows: list[dict[str, Any]]) -> None:
    """Replace the rows of the lake that meet the condition, in one commit."""
    table = stack.catalog().load_table(f"shop.{name}")
    with table.transaction() as change:
        change.delete(condition)
        change.append(pa.Table.from_pylist(rows, table.schema().as_arrow()))
