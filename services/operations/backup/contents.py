"""What a backup has, and where: one folder for many backups, which share the lake's files.

`<folder>/files/<bucket>/<key>` has each file of the lake once, since none ever changes. `<folder>/<moment>/` has what
one backup has of its own; its `manifest.json` is written last, so that a folder without one is no backup.
"""

import json
import os
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from services.operations.backup.errors import CannotRestore

MANIFEST, SETTINGS, SCHEMAS, OFFSETS, FILES = "manifest.json", "settings.env", "schemas.zip", "offsets.json", "files"
VERSION = 1


@dataclass(frozen=True)
class SavedTable:
    """A table as it was. ``metadata``: the location of its metadata file; ``files``: how many files it needs.

    ``topic_id``: of the topic that its positions are of; "": none.
    """

    name: str
    metadata: str
    snapshot: int | None
    files: int
    topic_id: str = ""


@dataclass(frozen=True)
class Manifest:
    """What one backup has. ``at``: when it was begun (ISO 8601, UTC); ``bytes``: of all files that its tables need.

    ``with_files``: the lake's files are in the folder, too. ``namespaces``: with their properties.
    """

    at: str
    warehouse: str
    tables: tuple[SavedTable, ...]
    namespaces: dict[str, dict[str, str]]
    files: int
    bytes: int
    with_files: bool
    version: int = VERSION

    def to_json(self) -> dict[str, Any]:
        """Return this as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Backup:
    """One backup in its folder, which need not be complete yet."""

    folder: Path
    name: str

    @classmethod
    def begun(cls, folder: Path, at: datetime) -> "Backup":
        """Return a new backup. Only its owner may read its folder, and that of all of them where it wasn't there."""
        backup = cls(folder, at.strftime("%Y-%m-%dT%H%M%SZ"))
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        backup.path.mkdir(mode=0o700)
        return backup

    @property
    def path(self) -> Path:
        """What the backup has of its own."""
        return self.folder / self.name

    def file(self, location: str) -> Path:
        """Return where a file of the lake is kept. ``location``: `s3://<bucket>/<key>`."""
        return self.folder / FILES / location.removeprefix("s3://")

    def write(self, name: str, content: bytes) -> None:
        """Write a file of the backup, whole, for its owner alone."""
        part = self.path / f".{name}"
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
            stream.write(content)
        part.replace(self.path / name)

    def read(self, name: str) -> bytes:
        """Return a file of the backup. Raises CannotRestore."""
        try:
            return (self.path / name).read_bytes()
        except OSError as error:
            raise CannotRestore(
                f"{self.path / name} can't be read: {error.strerror}. Choose another backup."
            ) from error

    def finish(self, manifest: Manifest) -> None:
        """Write down what the backup has: from now on it is one."""
        self.write(MANIFEST, json.dumps(manifest.to_json(), indent=1).encode())

    def manifest(self) -> Manifest:
        """Return what the backup has. Raises CannotRestore."""
        try:
            said = json.loads(self.read(MANIFEST))
            tables = tuple(SavedTable(**table) for table in said.pop("tables"))
            found = Manifest(tables=tables, **said)
        except (ValueError, TypeError, KeyError) as error:
            raise CannotRestore(f"{self.path / MANIFEST} isn't the manifest of a backup: {error}.") from error
        if found.version != VERSION:
            raise CannotRestore(f"{self.path} is a backup of version {found.version}; this release reads {VERSION}.")
        return found


def backups(folder: Path) -> list[Backup]:
    """Return the complete backups of a folder, oldest first."""
    return [Backup(folder, path.parent.name) for path in sorted(folder.glob(f"*/{MANIFEST}"))]


def chosen(folder: Path, name: str | None) -> Backup:
    """Return the backup called ``name``, or the newest. Raises CannotRestore."""
    found = backups(folder)
    if not found:
        raise CannotRestore(f"{folder} has no complete backup. `lakehouse backup FOLDER` makes one.")
    if name is None:
        return found[-1]
    for backup in found:
        if backup.name == name:
            return backup
    raise CannotRestore(f"{folder} has no backup {name}. Choose from: {', '.join(each.name for each in found)}.")
