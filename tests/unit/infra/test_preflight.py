from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.toolchain import java, ports, preflight
from infra.toolchain.errors import ToolchainError
from infra.toolchain.golang import version
from infra.toolchain.python import excerpt, locked

GOOD = preflight.Facts(
    runner="process",
    system="linux",
    architecture="amd64",
    memory=15.5,
    disk=50.0,
    installed=False,
    python=(3, 11),
    venv=True,
    java=17,
    maven=True,
    engine=None,
)


@pytest.mark.parametrize("runner", preflight.RUNNERS)
def test_a_good_machine_passes(runner: str) -> None:
    assert preflight.judge(replace(GOOD, runner=runner)) == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        pytest.param({"memory": 3.9}, "3.9 GiB of memory", id="too little memory"),
        pytest.param({"disk": 5.0}, "5.0 GiB of disk", id="too little disk to install"),
        pytest.param({"disk": 1.0, "installed": True}, "1.0 GiB of disk", id="too little disk to run"),
        pytest.param({"system": "darwin"}, "darwin", id="not Linux"),
        pytest.param({"architecture": "riscv64"}, "riscv64", id="an architecture without PostgreSQL"),
        pytest.param({"python": (3, 10)}, "Python 3.10", id="an old Python"),
        pytest.param({"venv": False}, "virtual environments", id="Python without venv"),
        pytest.param({"java": None}, "no Java", id="no Java"),
        pytest.param({"java": 11}, "Java 11", id="an old Java"),
        pytest.param({"java": 25}, "Java 25", id="a Java that Spark does not know"),
        pytest.param({"maven": False}, "no Maven", id="no Maven"),
        pytest.param({"taken": {"KAFKA_PORT": ports.Taken(9092, "java (process 7)")}}, "java (process 7)", id="port"),
        pytest.param({"shared": [("KAFKA_PORT", "CATALOG_PORT")]}, "KAFKA_PORT and CATALOG_PORT", id="one port twice"),
    ],
)
def test_each_problem_is_named_once_with_what_to_do(change: dict[str, Any], named: str) -> None:
    (problem,) = preflight.judge(replace(GOOD, **change))
    assert named in problem.what
    assert problem.do


@pytest.mark.parametrize("change", [{"java": None}, {"maven": False}, {"python": (3, 9)}, {"venv": False}])
def test_compose_needs_nothing_but_docker(change: dict[str, Any]) -> None:
    assert preflight.judge(replace(GOOD, runner="compose", **change)) == []


def test_compose_without_an_engine_is_refused() -> None:
    (problem,) = preflight.judge(replace(GOOD, runner="compose", engine="no Docker engine answers"))
    assert "RUNNER=process" in problem.do


def test_an_installed_toolchain_needs_no_maven_and_little_disk() -> None:
    assert preflight.judge(replace(GOOD, installed=True, maven=False, disk=3.0)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ("command not found", None),
    ],
)
def test_java_versions_are_read(text: str, expected: int | None) -> None:
    assert java.feature(text) == expected


def test_memory_is_the_least_of_machine_and_limits() -> None:
    meminfo = "MemTotal:       16777216 kB\nMemFree: 1 kB\n"
    assert preflight.memory(meminfo) == 16
    assert preflight.memory(meminfo, ["max\n", ""]) == 16
    assert preflight.memory(meminfo, [f"{4 * preflight.GIB}\n"]) == 4


def test_each_runner_binds_its_ports() -> None:
    values = {"KAFKA_PORT": "9092", "KAFKA_INTERNAL_PORT": "'19092'", "SPARK_MASTER_UI_PORT": "8080", "SHOP_RATE": "20"}
    assert ports.wanted(values, "process") == {"KAFKA_PORT": 9092, "KAFKA_INTERNAL_PORT": 19092}
    assert ports.wanted(values, "compose") == {"KAFKA_PORT": 9092, "SPARK_MASTER_UI_PORT": 8080}
    with pytest.raises(ToolchainError, match="KAFKA_PORT=kafka"):
        ports.wanted({"KAFKA_PORT": "kafka"}, "process")


def test_a_port_given_twice_is_found() -> None:
    assert ports.shared({"A_PORT": 1, "B_PORT": 2, "C_PORT": 1}) == [("A_PORT", "C_PORT")]


def test_listening_sockets_are_read_from_proc() -> None:
    table = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2384 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1
   1: 0100007F:2385 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 4712 1
"""
    assert ports.inodes(table) == {9092: "4711"}


def test_published_ports_are_read_from_docker() -> None:
    listing = "127.0.0.1:9000->9000/tcp, 127.0.0.1:9092->9092/tcp\n5432/tcp\n\n"
    assert ports.published(listing) == {9000, 9092}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("go version go1.26.8 linux/amd64", (1, 26, 8)), ("module x\n\ngo 1.25.0\n", (1, 25, 0)), ("none", None)],
)
def test_go_versions_are_read(text: str, expected: tuple[int, ...] | None) -> None:
    assert version(text) == expected


def test_a_lock_file_is_taken_apart_by_package() -> None:
    head = "# head\n"
    rich = "rich==1 \\\n    --hash=sha256:aa\n    # via typer\n"
    text = head + rich + "Py_Ments.Two[x]==2 ; marker \\\n    --hash=sha256:bb\n"
    assert list(locked(text)) == ["rich", "py-ments-two"]
    assert excerpt(text, ["rich"]) == rich


def test_the_packages_of_the_live_display_are_in_the_lock_file() -> None:
    from infra.toolchain.installer import TERMINAL_PACKAGES

    lock = (Path(preflight.__file__).parents[2] / "requirements.lock").read_text(encoding="utf-8")
    assert excerpt(lock, TERMINAL_PACKAGES).count("==") >= len(TERMINAL_PACKAGES)
