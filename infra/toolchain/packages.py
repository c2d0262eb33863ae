"""What the Python environment is filled with: exactly what the lock files name, every file by its hash."""

from __future__ import annotations

from pathlib import Path

from . import uv
from .layout import Layout
from .python import environment

_HASHES = ("--require-hashes", "--require-build-hashes", "--preview-features", "build-dependency-hashes")
# PySpark is a source package of 430 MB, nearly all of it jars: its wheel is unpacked at once, so it needn't be small.
_AS_IT_IS = ("--config-settings-package", "pyspark:--build-option=--compression=stored")


def install(layout: Layout, log: Path) -> None:
    """Install exactly what requirements.lock names, and take away everything else."""
    environment(layout, log)
    uv.pip(layout, log, "sync", *_options(layout), layout.root / "requirements.lock")


def install_development(layout: Layout, log: Path) -> None:
    """Install what checks and tests need on top."""
    lock = layout.root / "requirements-dev.lock"
    uv.pip(layout, log, "install", *_options(layout), "--no-deps", "-r", lock)


def install_project(layout: Layout, log: Path) -> None:
    """Install the project itself, in place, so that `lakehouse` is a command."""
    uv.pip(layout, log, "install", "--no-deps", "--no-build-isolation", "--editable", layout.root)


def _options(layout: Layout) -> list[str | Path]:
    return [*_HASHES, "--build-constraints", layout.root / "requirements.lock", *_AS_IT_IS]
