"""The faults that every change must survive; `make test-chaos` has all of them."""

from pathlib import Path

import pytest

from pipelines.spark.session import FEW_ARENAS
from tests.integration.lease import Candidate
from tests.integration.stack import Stack, wait_until
from tests.integration.web_faults import web_faults

pytestmark = pytest.mark.process

ONE_BY_ONE = ["after-backfill", "between-letters", "after-merge", "before-checkpoint"]


def test_the_mirrors_driver_maps_the_archive_of_its_classes_and_has_few_arenas(stack: Stack) -> None:
    (driver,) = [process for process in stack.processes("mirror") if process.name() == "java"]
    assert any(Path(file.path).name == "classes.jsa" for file in driver.memory_maps())
    assert FEW_ARENAS in driver.environ().items()


def test_a_second_mirror_of_the_source_waits_and_says_so(stack: Stack, tmp_path: Path) -> None:
    second = Candidate(stack.endpoints["kafka_bootstrap"], "shop", tmp_path)
    assert not second.gets_it()
    assert second.said == ["waiting_for_lease"]


def test_verify_goes_behind_a_migration_and_says_so(stack: Stack) -> None:
    stack.sql("CREATE TABLE moving (id bigint PRIMARY KEY)", "INSERT INTO moving VALUES (1)")
    stack.assert_equal("moving")
    with stack.source() as migration, migration.transaction():
        migration.execute("ALTER TABLE moving ADD note text")
        said = stack.lakehouse("verify", "moving", ok=(2,))["error"]
        assert said == "public.moving kept being created, truncated or changed meanwhile. Run verify again."
    stack.assert_equal("moving")


@pytest.mark.slow
def test_a_mirror_that_was_frozen_has_lost_its_lease_and_begins_anew(stack: Stack, tmp_path: Path) -> None:
    stack.sql("CREATE TABLE frozen (id bigint PRIMARY KEY)", "INSERT INTO frozen VALUES (1)")
    stack.assert_equal("frozen")
    stack.faults.on("before-merge", "pause")
    stack.sql("INSERT INTO frozen VALUES (2)")
    wait_until(lambda: stack.fired("before-merge"))
    other = Candidate(stack.endpoints["kafka_bootstrap"], "shop", tmp_path)
    frozen = stack.processes("mirror")
    for process in frozen:
        process.suspend()
    wait_until(other.lease.is_held)
    for process in frozen:
        process.resume()
    wait_until(lambda: not any(process.is_running() for process in frozen))
    stack.faults.off("before-merge")
    other.ends()
    stack.assert_equal("frozen")


@pytest.mark.slow
def test_the_mirror_dies_at_each_of_its_steps_and_goes_on(stack: Stack) -> None:
    stack.sql("CREATE TABLE fatal (id bigint PRIMARY KEY, note text)", "INSERT INTO fatal VALUES (1, 'a'), (2, 'b')")
    stack.assert_equal("fatal")
    for name in ONE_BY_ONE:
        stack.faults.on(name)
    stack.produce("fatal", b"not avro")
    stack.sql("ALTER TABLE fatal ADD COLUMN age int DEFAULT 7", "INSERT INTO fatal VALUES (3, 'c', 8)",
              "UPDATE fatal SET note = 'd' WHERE id = 1", "DELETE FROM fatal WHERE id = 2")  # fmt: skip
    for name in ONE_BY_ONE:
        wait_until(lambda name=name: stack.fired(name))
    stack.assert_equal("fatal")
    assert stack.lakehouse("dlq", "list", "--topic", "shop.public.fatal")["total"] == 1


@pytest.mark.slow
def test_a_batch_that_died_is_planned_anew_with_what_has_come_since(stack: Stack) -> None:
    stack.sql("CREATE TABLE anew (id bigint PRIMARY KEY)", "INSERT INTO anew VALUES (1)")
    stack.assert_equal("anew")
    stack.faults.on("before-checkpoint", "pause")
    stack.sql("INSERT INTO anew VALUES (2)")
    wait_until(lambda: stack.fired("before-checkpoint"))
    stack.sql("INSERT INTO anew VALUES (3)")
    stack.published()
    dying, said = stack.processes("mirror"), stack.said("mirror")
    for process in dying:
        process.suspend()
    stack.faults.off("before-checkpoint")
    for process in dying:
        process.kill()
    stack.assert_equal("anew")
    assert [line["event"] for line in said() if line["event"] in ("started", "planned_anew")] == [
        "started",
        "planned_anew",
    ]
    batch = next(line for line in said() if line["event"] == "batch" and "shop.public.anew" in line["rows"])
    # What its commit has already, and the rest, at once.
    assert [batch[key] for key in ("rows", "skipped", "merged")] == [{"shop.public.anew": 2}, 1, 1]


# What the catalog answers to a commit that it has done; None where the connection is cut.
ANSWERS = [("the answer is lost", None), ("503 although it is done", 503), ("409, for it is done twice", 409)]


@pytest.mark.slow
def test_a_commit_whose_outcome_is_unknown_is_looked_up_in_the_table(stack: Stack) -> None:
    tables = ("unknown", "unknown_new", "unknown_lines")
    stack.sql(
        "CREATE TABLE unknown (id bigint PRIMARY KEY, note text)",
        "CREATE TABLE unknown_new (id bigint PRIMARY KEY, note text)",
        "CREATE TABLE unknown_lines (line text)",
    )
    stack.sql(
        "INSERT INTO unknown SELECT g, 'a' FROM generate_series(1, 50) g",
        "INSERT INTO unknown_new VALUES (1, 'a')",
        "INSERT INTO unknown_lines VALUES ('a')",
    )
    stack.assert_equal(*tables)
    with web_faults(stack.endpoints["catalog_uri"]) as web, stack.redirected(CATALOG_URI=web.url):
        for number, (label, status) in enumerate(ANSWERS, 2):
            with (
                web.rule("POST", "/tables/unknown$", status=status, done=True) as merge,
                web.rule("POST", "/tables/unknown_new$", status=status, done=True) as new,
                web.rule("POST", "/tables/unknown_lines$", status=status, done=True) as append,
                web.rule("POST", "/tables/dead_letters$", status=status, done=True) as letter,
            ):
                stack.produce("unknown", b"not avro")
                stack.sql(
                    f"UPDATE unknown SET note = '{label}' WHERE id % 2 = 0",
                    f"INSERT INTO unknown_new VALUES ({number}, '{label}')",
                    f"INSERT INTO unknown_lines VALUES ('{label}')",
                )
                wait_until(lambda: all(rule.fired.is_set() for rule in (merge, new, append, letter)))
                stack.assert_equal(*tables)
    assert stack.lakehouse("dlq", "list", "--topic", "shop.public.unknown")["total"] == len(ANSWERS)
