"""Servers of an earlier release become those of this one, and their state goes on."""

import shutil
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.guides import RUNBOOKS, follow
from tests.integration.stack import CHECKOUT, Stack, with_shop

pytestmark = pytest.mark.process

HERE = "tests/chaos/test_upgrade.py"
TOOLCHAIN = Path(".lakehouse/toolchain")
NS = {"m": "http://maven.apache.org/POM/4.0.0"}
# Component: the earlier release, what names its version in the component's POM, what has to be installed anew for it.
EARLIER = {
    "postgres": ("17.5.0", "embedded-postgres-binaries-linux-${postgres.arch}", ("postgres",)),
    "kafka": ("4.2.0", "kafka_2.13", ("kafka", "converter")),
    "connect": ("3.6.0.Final", "debezium-connector-postgres", ("connect", "converter")),
    "catalog": ("1.10.1", "iceberg-core", ("catalog",)),
}
FOLDERS = ("postgres", "jars/kafka", "jars/connect-plugins", "jars/catalog")


def version(pom: Path, artifact: str) -> str:
    """The version that a POM names for an artifact."""
    for named in ET.parse(pom).getroot().iter():
        if named.findtext("m:artifactId", namespaces=NS) == artifact:
            found = named.findtext("m:version", namespaces=NS)
            if found is not None:
                return found
    raise AssertionError(f"{pom} names no version of {artifact}")


def own_toolchain(stack: Stack) -> None:
    """Give the stack a toolchain of its own: this checkout's parts, but those that come of an earlier release."""
    lent, own = CHECKOUT / TOOLCHAIN, stack.folder / TOOLCHAIN
    own.unlink()
    (own / "jars").mkdir(parents=True)
    for path in [*lent.iterdir(), *(lent / "jars").iterdir()]:
        name = str(path.relative_to(lent))
        if name not in ("jars", "stamps", "lock", *FOLDERS):
            (own / name).symlink_to(path)
    shutil.copytree(lent / "stamps", own / "stamps")


def uuids(stack: Stack) -> dict[str, str]:
    """Table of the shop to what tells it from one that was made anew."""
    catalog = stack.catalog()
    return {".".join(name): str(catalog.load_table(name).metadata.table_uuid) for name in catalog.list_tables("shop")}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    running = Stack(tmp_path_factory.mktemp("earlier"), "process")
    running.prepare()
    own_toolchain(running)
    poms = running.folder / "infra/toolchain/poms"
    for component, (earlier, artifact, _) in EARLIER.items():
        pom = poms / f"{component}.xml"
        now = version(pom, artifact)
        pom.write_text(pom.read_text().replace(f"<version>{now}</version>", f"<version>{earlier}</version>"))
    parts = sorted({part for _, _, parts in EARLIER.values() for part in parts})
    running.bash(f"python3 -m infra.toolchain pin && python3 -m infra.toolchain install {' '.join(parts)}")
    with with_shop(running):
        yield running


@pytest.mark.parametrize("component", EARLIER)
def test_a_component(stack: Stack, component: str) -> None:
    earlier, artifact, parts = EARLIER[component]
    now = version(CHECKOUT / f"infra/toolchain/poms/{component}.xml", artifact)
    before = uuids(stack)
    with stack.workload():
        stack.moves_on(100)
    follow(
        stack, RUNBOOKS / "upgrades.md", f"{HERE}::test_a_component", COMPONENT=component, OLD=earlier, NEW=now,
        INSTALLED=" ".join(parts),
    )  # fmt: skip
    assert version(stack.folder / f"infra/toolchain/poms/{component}.xml", artifact) == now
    with stack.workload(seed=8):
        stack.moves_on(100)
    stack.assert_equal()
    assert uuids(stack) == before
