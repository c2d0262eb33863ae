"""Programs that Debian packages, unpacked into the toolchain: nothing is installed on the machine.

`apt-get` checks what it fetches by Debian's signatures, so no checksum is pinned here; the version is Debian's stable
one.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from .commands import run
from .errors import ToolchainError
from .folders import scratch
from .layout import Layout


def install(layout: Layout, log: Path, packages: Sequence[str], programs: Sequence[str], target: Path) -> None:
    """Fetch packages and put their programs (names below usr/bin) into the folder `target`."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise ToolchainError(
            f"this machine has no apt-get, from which {', '.join(packages)} come",
            f"Put {', '.join(programs)} into {target} yourself, or run in containers: make up RUNNER=compose",
        )
    with scratch(layout.toolchain) as fetched:
        advice = "Its lists may be old: run apt-get update as root, then the same command again."
        run(["apt-get", "download", "-q", *packages], log, cwd=fetched, advice=advice)
        unpacked = fetched / "unpacked"
        for archive in sorted(fetched.glob("*.deb")):
            run(["dpkg-deb", "-x", archive, unpacked], log)
        target.mkdir(parents=True, exist_ok=True)
        for program in programs:
            fresh = target / f".{program}.new"
            shutil.copy2(unpacked / "usr" / "bin" / program, fresh)
            fresh.replace(target / program)
