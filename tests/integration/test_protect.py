"""Protected columns on real servers: what is in the lake, in dead letters, in logs and in what Spark shows.

By the contract of ``shielded`` in tests.integration.stack.
"""

import re
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from pipelines.protection.crypto import ProtectionKeys
from tests.integration.guides import RUNBOOKS, follow
from tests.integration.objects import texts
from tests.integration.stack import Stack, wait_until

pytestmark = pytest.mark.process
SEEN = ("ada@private", "eve@private", "nobody-private", "+44 1632 960 001", "1815-12-10", "dear diary", "731984")


def keys_of(stack: Stack) -> ProtectionKeys:
    keys = ProtectionKeys.of(SecretStr(stack.setting("PROTECTION_KEY")))
    assert keys is not None
    return keys


def masked(stack: Stack, column: str) -> bool:
    """Whether lineage says that a column isn't what its source's is."""
    told = stack.lakehouse("lineage", "show", f"shielded.{column}", "--upstream", ok=(0, 2)).get("graph", ())
    made = [way for node in told for source in node["data"]["inputFields"] for way in source["transformations"]]
    return {"type": "DIRECT", "subtype": "TRANSFORMATION", "description": "hash", "masking": True} in made


def rows(stack: Stack) -> dict[int, dict[str, Any]]:
    found = stack.catalog().load_table("shop.shielded").scan().to_arrow().to_pylist()
    return {row["id"]: row for row in found}


def test_nothing_that_is_protected_is_seen_anywhere(stack: Stack) -> None:
    keys, diary = keys_of(stack), "dear diary " + "x" * 200_000
    stack.sql(
        "CREATE TABLE shielded (id bigint PRIMARY KEY, mail text, born date, phone text, diary text, pin int)",
        "ALTER TABLE shielded ALTER diary SET STORAGE EXTERNAL",
        f"INSERT INTO shielded VALUES (1, 'ada@private', '1815-12-10', '+44 1632 960 001', '{diary}', 731984),"
        " (2, NULL, NULL, NULL, NULL, NULL), (3, 'nobody-private', '1815-12-10', NULL, NULL, 731984)",
    )
    stack.lakehouse("wait")
    stack.sql("UPDATE shielded SET mail = 'eve@private' WHERE id = 1")
    stack.lakehouse("wait")
    found = rows(stack)
    assert found.keys() == {1, 2}
    first = found[1]
    assert (first["mail"], first["born"]) == (keys.hashed("eve@private"), keys.tokenised("1815-12-10"))
    assert (first["phone"], first["pin"]) == ("*** 001", None)
    assert keys.decrypted(first["diary"], "public.shielded.diary") == diary
    assert {found[2][name] for name in ("mail", "born", "phone", "diary", "pin")} == {None}

    (letter,) = stack.lakehouse("dlq", "list", "--topic", "shop.public.shielded")["letters"]
    assert letter["reason"] == "rule_broken"
    position = f"{letter['topic']}:{letter['partition']}:{letter['offset']}"
    shown = stack.lakehouse("dlq", "show", position, "--payload")
    assert shown["protected"] == "sealed; opened by the key"
    assert shown["value"]["decoded"]["after"]["mail"] == "nobody-private"
    kept = stack.catalog().load_table("lakehouse.dead_letters").scan().to_arrow().to_pylist()
    assert not [word for word in SEEN if word in repr(kept)]

    assert stack.lakehouse("verify", "shielded", ok=(1,))["tables"][0]["missing"] == 1
    stack.sql("UPDATE shielded SET mail = 'ada@private' WHERE id = 3")
    stack.lakehouse("wait")
    stack.lakehouse("dlq", "discard", position, "--because", "mended in the source")
    stack.lakehouse("dlq", "replay", "--topic", letter["topic"])
    stack.assert_equal("shielded")
    assert rows(stack)[3]["mail"] == keys.hashed("ada@private")

    table = stack.lakehouse("table", "show", "shielded")
    assert table["protected"] == {
        "mail": "hash", "born": "tokenise", "phone": "mask", "diary": "encrypt", "pin": "drop",
    }  # fmt: skip
    wait_until(lambda: masked(stack, "mail"))
    # The runs of the checker, too.
    (run,) = stack.own("check", "shielded")["tables"]
    assert {result["name"] for result in run["results"] if result["error"]} == {"mail.pattern"}

    logs = "".join(path.read_text(errors="replace") for path in (stack.folder / ".lakehouse/logs").rglob("*.log*"))
    for text in (logs, spark_shows(stack)):
        assert not [word for word in (*SEEN, stack.setting("PROTECTION_KEY"), keys.hash.hex()) if word in text]


@pytest.mark.slow
def test_a_contract_that_protects_more_waits_for_a_resync(stack: Stack) -> None:
    stack.sql("CREATE TABLE grown (id bigint PRIMARY KEY, mail text)",
              "INSERT INTO grown VALUES (1, 'ada@private'), (2, 'eve@private')")  # fmt: skip
    stack.assert_equal("grown")
    contract = (stack.folder / "quality/contracts/shielded.yaml").read_text(encoding="utf-8")
    head, _ = contract.split("      - name: mail")
    (stack.folder / "quality/contracts/grown.yaml").write_text(
        head.replace("shielded", "grown")
        + "      - {name: mail, logicalType: string, customProperties: [{property: protection, value: hash}]}\n",
        encoding="utf-8",
    )
    stack.make("kill", "s=mirror")
    stack.sql("INSERT INTO grown VALUES (3, 'joe@private')")
    held = stack_held(stack, "shop.public.grown")
    assert re.search("mail is there as in the source, and shall be hash.*lakehouse resync public.grown", held)
    follow(
        stack,
        RUNBOOKS / "protection-changed.md",
        "tests/integration/test_protect.py::test_a_contract_that_protects_more_waits_for_a_resync",
        TABLE="grown",
    )
    stack.assert_equal("grown")
    found = stack.catalog().load_table("shop.grown").scan().to_arrow().to_pylist()
    keys = keys_of(stack)
    assert {row["mail"] for row in found} == {keys.hashed(f"{name}@private") for name in ("ada", "eve", "joe")}
    # Older snapshots have what was there before, until somebody gives them up.
    assert [name for name, text in texts(stack, "warehouse/shop/grown/") if "@private" in text]
    stack.lakehouse("maintain", "grown", "--purge", "--because", "protected now")
    assert not [name for name, text in texts(stack, "warehouse/shop/grown/") if "@private" in text]
    stack.assert_equal("grown")


def stack_held(stack: Stack, topic: str) -> str:
    wait_until(lambda: topic in stack.lakehouse("table", "list")["held"])
    return str(stack.lakehouse("table", "list")["held"][topic])


def spark_shows(stack: Stack) -> str:
    """What Spark's web pages tell of the mirror's statements."""
    base = f"http://127.0.0.1:{stack.setting('SPARK_UI_PORT')}/api/v1/applications"
    applications = httpx.get(base, timeout=60).raise_for_status().json()
    query = {"details": "true", "planDescription": "true", "length": "1000"}
    return "".join(
        httpx.get(f"{base}/{each['id']}/{what}", params=query, timeout=60).raise_for_status().text
        for each in applications
        for what in ("sql", "environment", "jobs")
    )
