"""A small disk below a folder, which a test fills: it takes root."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")


def mount(folder: Path, mib: int) -> None:
    """Lay an empty disk of so many MiB over a folder."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(folder)], check=True)


def unmount(folder: Path, lazily: bool = False) -> None:
    """Take the disk away. ``lazily``: while somebody still works there, who goes on with it."""
    subprocess.run(["umount", *(["--lazy"] if lazily else []), str(folder)], check=True)
