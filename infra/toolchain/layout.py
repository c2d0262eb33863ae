"""Where things lie: one frozen object that knows every path of a checkout, and what machine this is."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True)
class Layout:
    """Paths below `root`, the checkout; `architecture` is `amd64`, `arm64` or what the machine calls itself."""

    root: Path
    architecture: str

    @classmethod
    def of_this_checkout(cls) -> Layout:
        """Return the layout of the checkout that this file belongs to, on this machine."""
        machine = platform.machine().lower()
        return cls(root=Path(__file__).resolve().parents[2], architecture=ARCHITECTURES.get(machine, machine))

    @property
    def env_file(self) -> Path:
        """Settings and secrets."""
        return self.root / ".env"

    @property
    def sources(self) -> Path:
        """What the toolchain is installed from: POMs, lock files, checksums."""
        return self.root / "infra" / "toolchain"

    @property
    def toolchain(self) -> Path:
        """What has been installed."""
        return self.root / ".lakehouse" / "toolchain"

    @property
    def venv(self) -> Path:
        """The Python environment of everything."""
        return self.toolchain / "venv"

    @property
    def python(self) -> Path:
        """The interpreter of that environment."""
        return self.venv / "bin" / "python"

    @property
    def logs(self) -> Path:
        """Logs of servers and of installing."""
        return self.root / ".lakehouse" / "logs"

    def log(self, component: str) -> Path:
        """Return the log of installing a component."""
        return self.logs / f"install-{component}.log"
