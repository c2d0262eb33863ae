"""SHA-256 of every file that Maven fetches, pinned in `checksums.txt` and verified before a file is used."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from .errors import ChecksumMismatch

Pins = dict[str, dict[str, str]]
"""Digests by group (a component, or `postgres-arm64`), then by file name."""

_HEADER = "# SHA-256 of every file fetched by Maven. Rewritten by `python3 -m infra.toolchain pin`.\n"


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of every file in a folder, by file name."""
    return {path.name: digest(path) for path in sorted(folder.iterdir()) if path.is_file()}


def parse(text: str) -> Pins:
    """Read lines of `digest  group/file`; raises ValueError on any other line that is no comment."""
    pins: Pins = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        value, _, name = line.partition("  ")
        group, _, file = name.partition("/")
        if len(value) != 64 or not group or not file:
            raise ValueError(f"line {number} of the checksums is not 'sha256  group/file'")
        pins.setdefault(group, {})[file] = value
    return pins


def render(pins: Mapping[str, Mapping[str, str]]) -> str:
    """Write what `parse` reads, sorted."""
    lines = [f"{pins[group][file]}  {group}/{file}" for group in sorted(pins) for file in sorted(pins[group])]
    return _HEADER + "\n".join(lines) + "\n"


def verify(group: str, found: Mapping[str, str], pinned: Mapping[str, str]) -> None:
    """Raise `ChecksumMismatch` unless exactly the pinned files were found, each with its pinned digest."""
    problems = [f"{name} is missing" for name in sorted(pinned.keys() - found.keys())]
    problems += [f"{name} is not pinned" for name in sorted(found.keys() - pinned.keys())]
    problems += [
        f"{name} has SHA-256 {found[name]}, not {pinned[name]}"
        for name in sorted(found.keys() & pinned.keys())
        if found[name] != pinned[name]
    ]
    if problems:
        raise ChecksumMismatch(
            f"{group}: what was fetched is not what is pinned: " + "; ".join(problems),
            "Delete these files from Maven's local repository and run again; if the difference stays, do not use them. "
            "After changing a version on purpose: python3 -m infra.toolchain pin",
        )
