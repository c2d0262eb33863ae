"""A directory for what doesn't fit in memory."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from services.stack.settings import CHECKOUT

PARENT = CHECKOUT / ".lakehouse" / "verify"


@contextmanager
def scratch(parent: Path = PARENT) -> Iterator[Path]:
    """In ``parent`` if that can be written, else in the system's; gone with the block."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        directory = Path(tempfile.mkdtemp(dir=parent))
    except OSError:
        directory = Path(tempfile.mkdtemp(prefix="lakehouse-verify-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
