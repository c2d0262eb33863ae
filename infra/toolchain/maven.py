"""Fetching jars and archives with Maven: exact versions from the POMs, contents held against pinned checksums."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from . import checksums
from .commands import run
from .layout import Layout

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin"
DEPENDENCIES = f"{_PLUGIN}:3.8.1:copy-dependencies"
# For single artifacts an old version: later ones read the artifact's POM and its parents, which not every mirror has.
ARTIFACTS = f"{_PLUGIN}:2.8:copy"
_ADVICE = (
    "Maven could not fetch everything: check the network (proxies and mirrors belong into ~/.m2/settings.xml), "
    "then run the same command again: what is done is kept."
)
# Maven 3 does not protect its local repository from a second Maven that writes to it.
_one_at_a_time = threading.Lock()


def pins(layout: Layout) -> checksums.Pins:
    """Return the pinned checksums; empty before the first `pin`."""
    file = layout.sources / "checksums.txt"
    return checksums.parse(file.read_text(encoding="utf-8")) if file.exists() else {}


def postgres_properties(architecture: str) -> dict[str, str]:
    """Return the Maven property that names PostgreSQL's architecture, in its packager's spelling."""
    return {"postgres.arch": {"arm64": "arm64v8"}.get(architecture, architecture)}


def copy(layout: Layout, pom: str, folder: Path, log: Path, properties: Mapping[str, str]) -> None:
    """Fetch what a POM lists, dependencies or single artifacts, into a folder, unverified; raise `CommandFailed`."""
    file = layout.sources / "poms" / f"{pom}.xml"
    goal = ARTIFACTS if "<artifactItems>" in file.read_text(encoding="utf-8") else DEPENDENCIES
    command: list[str | Path] = ["mvn", "-B", "-ntp", "-f", file, goal, f"-DoutputDirectory={folder}"]
    command += [f"-D{name}={value}" for name, value in properties.items()]
    # It runs for seconds: the optimising compiler would never earn what it takes. What the caller sets counts.
    options = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {os.environ.get('MAVEN_OPTS', '')}"
    with _one_at_a_time:
        run(command, log, attempts=2, advice=_ADVICE, environment={"MAVEN_OPTS": options.strip()})


def fetch(
    layout: Layout, pom: str, group: str, folder: Path, log: Path, properties: Mapping[str, str] | None = None
) -> None:
    """Fetch the dependencies of a POM into a folder and verify them.

    Raises `CommandFailed` if Maven can't, `ChecksumMismatch` unless exactly the pinned files came.
    """
    copy(layout, pom, folder, log, properties or {})
    checksums.verify(group, checksums.digests(folder), pins(layout).get(group, {}))


def pin(layout: Layout) -> Path:
    """Fetch everything anew from the POMs, for both architectures, and rewrite the checksum file; return its path."""
    poms = {path.stem: path for path in sorted((layout.sources / "poms").glob("*.xml"))}
    wanted: list[tuple[str, str, dict[str, str]]] = [(name, name, {}) for name in poms if name != "postgres"]
    wanted += [(f"postgres-{arch}", "postgres", postgres_properties(arch)) for arch in ("amd64", "arm64")]
    found: checksums.Pins = {}
    for group, pom, properties in wanted:
        with tempfile.TemporaryDirectory(prefix="pin.") as folder:
            copy(layout, pom, Path(folder), layout.log("pin"), properties)
            found[group] = checksums.digests(Path(folder))
    target = layout.sources / "checksums.txt"
    target.write_text(checksums.render(found), encoding="utf-8")
    return target
