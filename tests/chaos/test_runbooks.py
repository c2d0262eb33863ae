"""Symptoms that a runbook is about, and what it says to do, done as it stands there."""

import re
import socket
from collections.abc import Iterator

import httpx
import psutil
import pytest

from tests.chaos.test_resync import capture, held
from tests.integration.guides import RUNBOOKS, follow
from tests.integration.stack import Stack, free_ports, wait_until
from tests.integration.unseen import outcomes

pytestmark = pytest.mark.process

HERE = "tests/chaos/test_runbooks.py"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    running = Stack(tmp_path_factory.mktemp("mended"), "process")
    running.prepare()
    try:
        running.up()
        running.sql("CREATE TABLE mended (id int PRIMARY KEY)", "INSERT INTO mended SELECT generate_series(1, 100)")
        running.assert_equal("mended")
        yield running
    finally:
        running.make("down")


def do(stack: Stack, page: str, test: str, **names: str) -> str:
    return follow(stack, RUNBOOKS / f"{page}.md", f"{HERE}::{test}", **names)


def lag(stack: Stack, table: str) -> int:
    return next(int(each["lag"]) for each in stack.lakehouse("table", "list")["tables"] if each["table"] == table)


def test_a_connector_whose_schema_is_refused(stack: Stack) -> None:
    """Somebody has the registry take compatible schemas only: capture tries five times, and gives up."""
    rules = f"{stack.endpoints['schema_registry_url'].partition('/apis/')[0]}/apis/registry/v2/admin/rules"
    stack.sql("CREATE TABLE ruled (id int PRIMARY KEY, v int NOT NULL)", "INSERT INTO ruled VALUES (1, 1)")
    stack.lakehouse("wait")
    rule = {"type": "COMPATIBILITY", "config": "FULL_TRANSITIVE"}
    httpx.post(rules, json=rule, trust_env=False, timeout=60).raise_for_status()
    stack.sql("ALTER TABLE ruled DROP COLUMN v", "INSERT INTO ruled VALUES (2)")
    wait_until(lambda: "capture gave up" in (capture(stack)["next_step"] or ""))
    httpx.delete(f"{rules}/COMPATIBILITY", trust_env=False, timeout=60).raise_for_status()
    do(stack, "connector-failed", "test_a_connector_whose_schema_is_refused")
    assert set(capture(stack)["tasks"].values()) == {"RUNNING"}
    stack.assert_equal("ruled", "mended")


def test_a_connector_that_gets_no_answer(stack: Stack) -> None:
    """A registry that hangs when the connector asks it for a new schema: the task runs, and writes nothing."""
    with stack.frozen("schema-registry"):
        stack.sql("ALTER TABLE mended ADD COLUMN note text", "UPDATE mended SET note = 'a' WHERE id <= 50")
        wait_until(lambda: "infra/runbooks/capture-stalls.md" in (capture(stack)["error"] or ""))
    do(stack, "capture-stalls", "test_a_connector_that_gets_no_answer")
    stack.assert_equal("mended")


def test_rows_that_change_without_events(stack: Stack) -> None:
    with stack.frozen("verifier"):
        stack.sql("ALTER TABLE mended ALTER id TYPE int USING id + 1000")
        wait_until(lambda: "public.mended" in capture(stack)["changed_without_events"])
    do(stack, "changed-without-events", "test_rows_that_change_without_events", TABLE="mended")
    wait_until(lambda: not capture(stack)["changed_without_events"])
    assert outcomes(stack, ["mended"]) == {"mended": {"the lake equals its source"}}
    stack.assert_equal("mended")


def test_a_mirror_that_stands_still(stack: Stack) -> None:
    stack.faults.on("before-merge", "pause")
    stack.sql("INSERT INTO mended SELECT generate_series(2001, 2100)")
    wait_until(lambda: stack.fired("before-merge"))
    wait_until(lambda: lag(stack, "lake.shop.mended") > 0)
    do(stack, "lag-grows", "test_a_mirror_that_stands_still")
    stack.assert_equal("mended")


def test_lineage_that_hangs(stack: Stack) -> None:
    hung = stack.processes("lineage")
    for process in hung:
        process.suspend()
    stack.sql("CREATE TABLE told (id int PRIMARY KEY)", "INSERT INTO told VALUES (1)")
    stack.lakehouse("wait")
    assert "told" in do(stack, "lineage-lacks", "test_lineage_that_hangs", TABLE="shop.told")
    assert not any(psutil.pid_exists(process.pid) for process in hung)


def test_a_change_that_the_spec_forbids(stack: Stack) -> None:
    """The table `settled` of these tests' stacks has its renames frozen."""
    spec = "pipelines/specs/settled.yaml"
    stack.sql("CREATE TABLE settled (id int PRIMARY KEY, old text)", "INSERT INTO settled VALUES (1, 'a')")
    stack.lakehouse("wait")
    stack.sql("ALTER TABLE settled RENAME COLUMN old TO new", "INSERT INTO settled VALUES (2, 'b')")
    wait_until(lambda: "infra/runbooks/schema-change.md" in held(stack).get("shop.public.settled", ""))
    do(stack, "schema-change", "test_a_change_that_the_spec_forbids", SPEC=spec, KIND="rename", TABLE="settled")
    assert "rename: evolve" in (stack.folder / spec).read_text()
    stack.assert_equal("settled")


def test_a_port_that_somebody_has(stack: Stack) -> None:
    stack.make("down")
    (free,) = free_ports(1)
    with socket.create_server(("127.0.0.1", int(stack.setting("LINEAGE_PORT")))):
        with pytest.raises(AssertionError) as refused:
            stack.bash("python3 -m infra.toolchain preflight --runner process")
        (variable,) = re.findall(r"\((\w+_PORT)\) is in use", str(refused.value))
        do(stack, "start-fails", "test_a_port_that_somebody_has", VARIABLE=variable, PORT=str(free))
    assert stack.setting("LINEAGE_PORT") == str(free)
    stack.assert_equal()
