"""Stamps: what is installed and from which inputs, so that a second run knows at once that nothing is left to do."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def key(inputs: Iterable[str | Path]) -> str:
    """Return one digest over the inputs: texts as they are, files by their content. A missing file counts as empty."""
    whole = hashlib.sha256()
    for item in inputs:
        content = (item.read_bytes() if item.exists() else b"") if isinstance(item, Path) else item.encode()
        whole.update(hashlib.sha256(content).digest())
    return whole.hexdigest()


class Stamps:
    """The stamps in one folder, a file a component. A component counts as installed only while its stamp is there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def current(self, component: str, wanted: str, target: Path) -> bool:
        """Say whether a component is installed from exactly the wanted inputs."""
        stamp = self._folder / component
        return target.exists() and stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted

    def written(self, component: str) -> int | None:
        """Return when a component was completed, in nanoseconds since 1970; None: it isn't."""
        try:
            return (self._folder / component).stat().st_mtime_ns
        except FileNotFoundError:
            return None

    def clear(self, component: str) -> None:
        """Forget a component, before it is changed."""
        (self._folder / component).unlink(missing_ok=True)

    def write(self, component: str, wanted: str) -> None:
        """Record that a component is complete, in one step."""
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder / f".{component}"
        temporary.write_text(wanted, encoding="utf-8")
        temporary.replace(self._folder / component)
