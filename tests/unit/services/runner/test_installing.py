from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from infra.toolchain import installer
from infra.toolchain.components import COMPONENTS, IMAGES
from infra.toolchain.layout import Layout
from services.runner.compose_file import Build, Service
from services.runner.errors import RunnerError
from services.runner.installing import BeingInstalled

STORE = Service(name="object-store", command=("start",), build=Build(target="object-store"))


class Installer:
    """Stands where the installer is: what is out of date, and whether it is at work, look by look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *looks: tuple[bool, list[str]]) -> None:
        self.looks = list(looks)
        monkeypatch.setattr(installer, "at_work", lambda _: self.looks[0][0])
        monkeypatch.setattr(installer, "outdated", self.outdated)

    def outdated(self, _: Layout, names: list[str]) -> dict[str, str]:
        _, missing = self.looks.pop(0)
        return {name: "" for name in names if name in missing}


@pytest.fixture
def wait(tmp_path: Path) -> Callable[[Service], list[str]]:
    def waits(service: Service) -> list[str]:
        told: list[str] = []
        BeingInstalled(Layout(tmp_path, "amd64")).wait_for(service, lambda: None, told.append)
        return told

    return waits


def test_a_service_waits_for_what_it_is_made_from_and_for_nothing_else(
    wait: Callable[[Service], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = (True, ["object-store", "spark"])
    Installer(monkeypatch, missing, missing, (True, ["spark"]))
    assert wait(STORE) == ["waits for MinIO, built from source"]


def test_a_service_whose_part_could_not_be_installed_says_so(
    wait: Callable[[Service], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    Installer(monkeypatch, (True, ["object-store"]), (False, ["object-store"]))
    with pytest.raises(RunnerError, match="object-store: MinIO, built from source could not be installed") as caught:
        wait(STORE)
    assert "make up" in caught.value.next_step


def test_what_was_finished_last_counts(wait: Callable[[Service], list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    Installer(monkeypatch, (False, []))
    assert wait(STORE) == []


def test_it_is_known_what_the_services_of_each_image_need() -> None:
    services = yaml.safe_load((Path(__file__).parents[4] / "docker-compose.yml").read_text())["services"]
    assert {service["build"]["target"] for service in services.values()} == set(IMAGES)
    assert {need for needs in IMAGES.values() for need in needs} <= set(COMPONENTS)
