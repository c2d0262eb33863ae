"""What happens to the mirror's process and machine: another mirror, an old checkpoint, signals, disk."""

import json
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.chaos.small_disk import ROOT, mount, unmount
from tests.chaos.test_resync import held
from tests.integration.guides import RUNBOOKS, follow
from tests.integration.lease import Candidate
from tests.integration.stack import PYTHON, WAIT_SECONDS, Stack, wait_until

pytestmark = pytest.mark.process


@contextmanager
def _another_mirror(stack: Stack, folder: Path) -> Iterator[Path]:
    """A mirror of the same source with a state of its own; its log."""
    folder.mkdir()
    own = {"STATE_DIR": str(folder), "SPARK_UI_PORT": "0", "LAKEHOUSE_SERVICE": "a test's own"}
    path = folder / "log"
    with path.open("w") as log:
        process = subprocess.Popen(
            [PYTHON, "-m", "pipelines.mirror"], cwd=stack.folder, env={**os.environ, **stack.mirror_environment, **own},
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield path
        finally:
            process.terminate()
            assert process.wait(WAIT_SECONDS) == 0


def test_of_two_mirrors_one_works_and_the_other_says_that_it_waits(stack: Stack, tmp_path: Path) -> None:
    with stack.workload(), _another_mirror(stack, tmp_path / "mirror") as log:
        wait_until(lambda: '"waiting_for_lease"' in log.read_text(encoding="utf-8"))
        stack.moves_on(100)
        stack.make("kill", "s=mirror")
        stack.moves_on(100)
        assert '"batch"' not in log.read_text(encoding="utf-8")
    stack.assert_equal()


def test_the_mirror_is_killed_fifteen_times_at_random_moments(stack: Stack) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    moments = random.Random(seed)
    with stack.workload(seed=seed):
        for _ in range(15):
            stack.moves_on(moments.randrange(1, 200))
            stack.make("kill", "s=mirror")
    stack.assert_equal()


def test_a_lease_is_its_state_directorys(stack: Stack, tmp_path: Path) -> None:
    kafka = stack.endpoints["kafka_bootstrap"]
    first = Candidate(kafka, "elsewhere", tmp_path / "first")
    assert first.gets_it()
    assert not Candidate(kafka, "elsewhere", tmp_path / "other").gets_it()
    again = Candidate(kafka, "elsewhere", tmp_path / "first")
    assert again.gets_it(), "as after a kill"
    wait_until(lambda: not first.lease.is_held())


def test_a_batch_ends_before_a_mirror_that_is_asked_to_stop(stack: Stack) -> None:
    stack.faults.on("before-merge", "pause")
    with stack.workload():
        wait_until(lambda: stack.fired("before-merge"))
        stopped = stack.log("mirror").count('"event": "stopped"')
        pid = (stack.folder / ".lakehouse/run/services/mirror.starts").read_text(encoding="ascii").split()[-1]
        os.kill(int(pid), signal.SIGTERM)
        wait_until(lambda: '"event": "stopping"' in stack.log("mirror").rsplit('"event": "started"', 1)[-1])
        stack.faults.off("before-merge")
        wait_until(lambda: stack.log("mirror").count('"event": "stopped"') > stopped)
    stack.assert_equal()


def test_an_older_checkpoint_repeats_nothing(stack: Stack, tmp_path: Path) -> None:
    checkpoint = stack.folder / ".lakehouse/data/mirror/checkpoint"
    stack.sql("CREATE TABLE aged (id bigint PRIMARY KEY)", "INSERT INTO aged VALUES (1)")
    stack.assert_equal("aged")
    with stack.workload():
        _hold(stack)
        shutil.copytree(checkpoint, tmp_path / "older")
        stack.faults.off("before-batch")
        stack.moves_on(300)
        # Tables that the older checkpoint knows nothing of, and one that is gone by now.
        stack.sql("CREATE TABLE young (id bigint PRIMARY KEY)", "INSERT INTO young VALUES (1)", "DROP TABLE aged")
        stack.assert_equal("young")
        _hold(stack)
        shutil.rmtree(checkpoint)
        shutil.copytree(tmp_path / "older", checkpoint)
        stack.make("kill", "s=mirror")
    stack.assert_equal()


def _hold(stack: Stack) -> None:
    """Have the mirror wait between two batches, where it leaves its checkpoint alone."""
    stack.faults.on("before-batch", "pause")
    wait_until(lambda: stack.fired("before-batch"))


def test_a_clock_that_is_behind_the_lake_is_told_and_waited_for(stack: Stack) -> None:
    stack.sql("CREATE TABLE early (id bigint PRIMARY KEY)", "INSERT INTO early VALUES (1)")
    stack.assert_equal("early")
    _postdate(stack, "early", seconds=150)
    stack.sql("INSERT INTO early VALUES (2)", "DELETE FROM early WHERE id = 1")
    wait_until(lambda: "clock-wrong.md" in held(stack).get("shop.public.early", ""))
    # By itself, when the time has come.
    test = "tests/chaos/test_drivers.py::test_a_clock_that_is_behind_the_lake_is_told_and_waited_for"
    follow(stack, RUNBOOKS / "clock-wrong.md", test, TABLE="early")
    stack.assert_equal()


def _postdate(stack: Stack, name: str, seconds: int) -> None:
    """Make a table's last change one of a time to come, as a clock that was ahead would have."""
    catalog, identifier = stack.catalog(), f"shop.{name}"
    table = catalog.load_table(identifier)
    metadata = json.loads(table.io.new_input(table.metadata_location).open().read())
    metadata["last-updated-ms"] += seconds * 1000
    for entry in (metadata["snapshots"][-1], metadata["snapshot-log"][-1]):
        entry["timestamp-ms"] = metadata["last-updated-ms"]
    location = f"{table.location()}/metadata/09999-postdated.metadata.json"
    with table.io.new_output(location).create() as written:
        written.write(json.dumps(metadata).encode())
    catalog.drop_table(identifier)
    catalog.register_table(identifier, location)


@ROOT
def test_the_mirrors_disk_is_full_for_a_while(stack: Stack) -> None:
    state = stack.folder / ".lakehouse/data/mirror"
    mount(state, 4)
    try:
        with stack.workload():
            stack.make("kill", "s=mirror")
            _fill_for_a_while(stack, state, "No space left on device")
            stack.assert_equal()
    finally:
        # Lazily: the mirror still works there, until it starts again on what is below.
        unmount(state, lazily=True)
    stack.make("kill", "s=mirror")
    stack.assert_equal()


@ROOT
def test_the_object_stores_disk_is_full_for_a_while(stack: Stack) -> None:
    state = stack.folder / ".lakehouse/data/object-store"
    used = sum(path.stat().st_blocks * 512 for path in state.rglob("*"))
    stack.make("down")
    kept = state.rename(state.with_name("kept"))
    state.mkdir()
    mount(state, used // 2**20 + 64)
    try:
        shutil.copytree(kept, state, dirs_exist_ok=True)
        stack.up()
        with stack.workload():
            _fill_for_a_while(stack, state, "minimum free drive threshold")
            test = "tests/chaos/test_drivers.py::test_the_object_stores_disk_is_full_for_a_while"
            assert "object-store" in follow(stack, RUNBOOKS / "disk-fills.md", test)
            stack.assert_equal()
    finally:
        stack.make("down")
        shutil.rmtree(kept)
        shutil.copytree(state, kept)
        unmount(state)
        state.rmdir()
        kept.rename(state)
        stack.up()
    stack.assert_equal()


def _fill_for_a_while(stack: Stack, folder: Path, complaint: str) -> None:
    """Fill the disk below a folder once batches are under way there, until the mirror has complained of it."""
    stack.moves_on()
    complaints = stack.log("mirror").count(complaint)
    _fill(folder / "filler")
    wait_until(lambda: stack.log("mirror").count(complaint) > complaints)
    (folder / "filler").unlink()


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4096))
        except OSError:
            pass
