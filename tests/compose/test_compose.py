"""The same stack in containers: built, started, worked with, proved equal, ended."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tenacity import RetryError
from testcontainers.compose import DockerCompose

from tests.integration.stack import Stack, wait_until

pytestmark = [pytest.mark.compose, pytest.mark.timeout(2400)]

PROJECT = "lakehouse-test"
ONE_SHOT = {"object-store-setup", "shop-setup"}
START_SECONDS = 400


def _engine_answers() -> bool:
    found = shutil.which("docker")
    return found is not None and subprocess.run([found, "info"], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def compose(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stack, DockerCompose]]:
    if not _engine_answers():
        assert not os.environ.get("CI"), "CI must run this, and no Docker engine answers"
        pytest.skip("no Docker engine answers")
    stack = Stack(Path(tmp_path_factory.mktemp("compose")), "compose")
    stack.prepare()
    with (stack.folder / ".env").open("a") as env:
        env.write(f"COMPOSE_PROJECT_NAME={PROJECT}\n")
    project = DockerCompose(stack.folder, build=True, wait=False)
    try:
        try:
            project.start()
            wait_until(lambda: _ready(project), START_SECONDS)
        except (subprocess.CalledProcessError, RetryError, AssertionError) as error:
            raise AssertionError(f"the stack doesn't start; {_amiss(project)}") from error
        yield stack, project
    finally:
        project.stop(down=True)


@pytest.fixture(scope="module")
def stack(compose: tuple[Stack, DockerCompose]) -> Stack:
    return compose[0]


@pytest.fixture(scope="module")
def project(compose: tuple[Stack, DockerCompose]) -> DockerCompose:
    return compose[1]


def _amiss(project: DockerCompose) -> str:
    """The services that aren't as they should be, and what they said last."""
    said = []
    for container in project.get_containers(include_all=True):
        done = container.Service in ONE_SHOT and container.State == "exited" and not container.ExitCode
        if container.Health != "healthy" and not done:
            log = "".join(project.get_logs(container.Service))
            said.append(f"{container.Service} is {container.State} {container.Health}:\n{log[-4000:]}")
    return "\n".join(said)


def _ready(project: DockerCompose) -> bool:
    containers = project.get_containers(include_all=True)
    failed = [c.Service for c in containers if c.State == "exited" and (c.Service not in ONE_SHOT or c.ExitCode)]
    assert not failed, f"{failed} ended: {project.get_logs(*failed)}"
    return len(containers) > len(ONE_SHOT) and all(
        c.State == "exited" if c.Service in ONE_SHOT else c.Health == "healthy" for c in containers
    )


def test_the_lake_equals_its_source_in_containers(stack: Stack, project: DockerCompose) -> None:
    services = {container.Service for container in project.get_containers(include_all=True)}
    assert services >= {"spark-master", "spark-worker", "mirror", "verifier", "capture", "connect", "kafka", "catalog"}
    stack.run_shop("load", "--scale", "0.02")
    stack.lakehouse("wait", "--timeout", "1200")
    with stack.workload():
        stack.moves_on(50)
    report = stack.assert_equal()
    assert sum(table["rows_source"] for table in report["tables"]) > 1000


@pytest.mark.slow
def test_what_is_killed_comes_back_in_containers(stack: Stack) -> None:
    """Each alone: tests/chaos/test_cluster.py."""
    with stack.workload(seed=8):
        stack.moves_on()
        for services in (("spark-master",), ("spark-worker", "mirror")):
            for service in services:
                stack.make("kill", f"s={service}")
            stack.moves_on()
    stack.assert_equal()


def test_nothing_listens_beyond_loopback(project: DockerCompose) -> None:
    published = [p for c in project.get_containers() for p in c.Publishers or [] if p.PublishedPort]
    assert published
    assert {p.URL for p in published} == {"127.0.0.1"}
