"""Folders that appear whole or not at all, and archives unpacked into them."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Give an empty folder beside `target` to fill; on a clean exit it takes the target's place, else it is removed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.new.", dir=target.parent))
    fresh.chmod(0o755)  # servers that run as another user read here
    try:
        yield fresh
        old = fresh.with_name(fresh.name.replace(".new.", ".old."))
        if target.exists():
            target.rename(old)
        fresh.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """Give a folder in `parent` for files on their way, removed in the end."""
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".scratch.new.", dir=parent) as folder:
        yield Path(folder)


def sweep(parent: Path) -> None:
    """Remove what broken-off runs left behind in `parent`."""
    for leftover in [*parent.glob(".*.new.*"), *parent.glob(".*.old.*")]:
        shutil.rmtree(leftover, ignore_errors=True)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar archive, compressed or not. Everything belongs to the current user; nothing lands outside."""
    with tarfile.open(archive) as tar:
        for member in tar:
            member.uid, member.gid = os.getuid(), os.getgid()
            member.uname = member.gname = ""
            if Path(member.name).is_absolute() or ".." in Path(member.name).parts:
                raise tarfile.ExtractError(f"{archive.name} reaches outside its folder: {member.name}")
            if hasattr(tarfile, "data_filter"):
                tar.extract(member, folder, filter="data")
            else:  # Python older than 3.11.4; the archive's checksum is pinned
                tar.extract(member, folder)
