"""Make a backup of a running lakehouse: tables, schemas, offsets, settings and secrets, and the lake's files.

Each table is saved as of one of its commits, with everything that its snapshots need. Its ledger is part of that, so
what a table has of its topic is saved with the table; between tables no moment is shared.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from pyarrow.fs import S3FileSystem
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import RESTError
from pyiceberg.table import Table
from requests.exceptions import RequestException

from services.capture.connect import Connect
from services.operations.backup.contents import OFFSETS, SCHEMAS, SETTINGS, Backup, Manifest, SavedTable
from services.operations.backup.copying import each, save
from services.operations.backup.errors import CannotBackUp
from services.operations.backup.table_files import needed, refreshed
from services.stack.endpoints import StackSettings
from services.stack.errors import Unreachable
from services.stack.lake import every_table, ledger_of, open_catalog
from services.stack.object_store import object_store
from services.stack.progress import OnProgress, silent

# A table whose files go while they are copied is saved as of a newer commit.
ATTEMPTS = 5
EXPORT = "/apis/registry/v3/admin/export"


def back_up(
    settings: StackSettings, env_file: Path, folder: Path, with_files: bool = True, on_progress: OnProgress = silent
) -> tuple[Backup, Manifest]:
    """Make a backup in ``folder``, beside those that it has. Only what these haven't got is copied.

    Raises CannotBackUp, Unreachable and OSError; what was copied until then is of use to the next one.
    """
    now = datetime.now(UTC)
    try:
        backup = Backup.begun(folder, now)
    except OSError as error:
        raise CannotBackUp(f"{folder} can't be written: {error.strerror}. Choose another folder.") from error
    backup.write(SETTINGS, env_file.read_bytes())
    backup.write(SCHEMAS, _exported(settings))
    catalog, store = open_catalog(settings), object_store(settings)
    namespaces, saved, sizes = _namespaces(catalog, settings), [], dict[str, int]()
    for table in every_table(catalog, settings):
        found = _saved(backup, store, table, with_files, on_progress)
        if found is not None:
            saved.append(found[0])
            sizes |= found[1]
    backup.write(OFFSETS, json.dumps(_offsets(settings), indent=1).encode())
    manifest = Manifest(
        now.isoformat(timespec="seconds"), settings.warehouse, tuple(saved), namespaces, len(sizes),
        sum(sizes.values()), with_files,
    )  # fmt: skip
    backup.finish(manifest)
    return backup, manifest


def _exported(settings: StackSettings) -> bytes:
    """Return all schemas with their ids, as the registry exports them."""
    base = httpx.URL(settings.schema_registry_url).copy_with(path=EXPORT)
    try:
        return httpx.get(base, timeout=120).raise_for_status().content
    except httpx.HTTPError as error:
        raise Unreachable("The schema registry", settings.schema_registry_url, type(error).__name__) from error


def _offsets(settings: StackSettings) -> Mapping[str, Any]:
    """Return how far capture has read the source: for whoever wants to know, since a restore has it read again."""
    with Connect(settings.connect_url) as connect:
        return {"connector": settings.source_name, "offsets": connect.offset(settings.source_name)}


def _namespaces(catalog: Catalog, settings: StackSettings) -> dict[str, dict[str, str]]:
    try:
        return {
            ".".join(name): {key: str(value) for key, value in catalog.load_namespace_properties(name).items()}
            for name in sorted(catalog.list_namespaces())
        }
    except (RequestException, RESTError) as error:
        raise Unreachable("The Iceberg catalog", settings.catalog_uri, type(error).__name__) from error


def _saved(
    backup: Backup, store: S3FileSystem, table: Table, with_files: bool, on_progress: OnProgress
) -> tuple[SavedTable, dict[str, int]] | None:
    """Save one table as of a commit all of whose files are still there; None: it was dropped meanwhile."""
    name, now = ".".join(table.name()), table
    for _ in range(ATTEMPTS):
        sizes = _copied(backup, store, now, name, with_files, on_progress)
        if sizes is not None:
            snapshot = now.current_snapshot()
            saved = SavedTable(
                name, now.metadata_location, snapshot.snapshot_id if snapshot else None, len(sizes),
                ledger_of(now).topic_id or "",
            )  # fmt: skip
            return saved, sizes
        found = refreshed(now)
        if found is None:
            return None
        now = found
    raise CannotBackUp(
        f"{name}: files of its snapshots are gone from the store, also those of its newest commit. `lakehouse verify"
        f" {name.split('.')[-1]}` says whether rows are missing (infra/runbooks/file-lost.md)."
    )


def _copied(
    backup: Backup, store: S3FileSystem, table: Table, name: str, with_files: bool, on_progress: OnProgress
) -> dict[str, int] | None:
    """Copy what a table needs; return location to bytes, or None if something is gone by now."""

    def copy(location: str) -> int:
        return save(store, location, backup.file(location)) if with_files else store.get_file_info(location[5:]).size

    try:
        done = each(needed(table), copy, name, "files", on_progress)
    except FileNotFoundError:
        return None
    sizes = {location: size for location, size in done.items() if isinstance(size, int)}
    return sizes if len(sizes) == len(done) else None
