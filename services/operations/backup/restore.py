"""Restore a backup where there is nothing yet, or what of a lakehouse was lost: its catalog, or files of its lake."""

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
from pyarrow.fs import FileSelector, FileType, S3FileSystem
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError
from pyiceberg.table import Table

from pipelines.ledger.entries import POSITIONS, TOPIC_ID
from services.operations.backup.contents import SCHEMAS, Backup, SavedTable
from services.operations.backup.copying import each, missing, put_back
from services.operations.backup.errors import CannotRestore
from services.operations.backup.table_files import needed
from services.stack.endpoints import StackSettings
from services.stack.errors import Unreachable
from services.stack.lake import open_catalog
from services.stack.object_store import object_store
from services.stack.progress import OnProgress, silent

IMPORT, SEARCH = "/apis/registry/v3/admin/import", "/apis/registry/v3/search/artifacts?limit=1"
_METADATA = re.compile(r"/metadata/(\d+)-[^/]+\.metadata\.json$")


@dataclass
class Restored:
    """What was restored. ``schemas``: whether the registry had none before; ``lost``: files that no backup has.

    ``made_anew``: tables that the catalog has, while their folders have those of more commits.
    """

    tables: list[str] = field(default_factory=list)
    files: int = 0
    schemas: bool = False
    lost: list[str] = field(default_factory=list)
    made_anew: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return this as plain data."""
        return asdict(self)


def restore(settings: StackSettings, backup: Backup, on_progress: OnProgress = silent) -> Restored:
    """Restore all of a backup into a lakehouse that has no tables, or those of an earlier try.

    Raises CannotRestore before anything is written, Unreachable and OSError; then the same may be run again.
    """
    manifest, done = backup.manifest(), Restored()
    if not manifest.with_files:
        raise CannotRestore(f"{backup.path} was made without the lake's files. Restore these, and use --catalog.")
    catalog, store = open_catalog(settings), object_store(settings)
    if manifest.warehouse != settings.warehouse:
        raise CannotRestore(f"the backup's warehouse is {manifest.warehouse}, and here it is {settings.warehouse}.")
    there = _names(catalog)
    others = sorted(there - {table.name for table in manifest.tables})
    if others:
        raise CannotRestore(
            f"the lake has tables already that the backup doesn't have: {', '.join(others[:5])}. Restore where there"
            " is nothing yet; nothing was written."
        )
    if gone_on := [saved.name for saved in manifest.tables if saved.name in there and _has_gone_on(catalog, saved)]:
        raise CannotRestore(
            f"the lake's tables have gone on since the backup: {', '.join(gone_on[:5])}. Restore where there is nothing"
            " yet, or use --files, which puts back files that the store has lost; nothing was written."
        )
    files = [path for path in (backup.folder / "files").rglob("*") if path.is_file() and path.suffix != ".part"]
    by_location = {f"s3://{path.relative_to(backup.folder / 'files')}": path for path in files}

    def send(location: str) -> int:
        return put_back(store, by_location[location], location)

    done.files = sum(map(bool, each(by_location, send, "lake", "files", on_progress).values()))
    done.schemas = import_schemas(settings, backup)
    _make_namespaces(catalog, manifest.namespaces)
    for saved in manifest.tables:
        if saved.name not in there:
            _check(catalog.register_table(tuple(saved.name.split(".")), saved.metadata), saved)
            done.tables.append(saved.name)
    return done


def _has_gone_on(catalog: Catalog, saved: SavedTable) -> bool:
    return catalog.load_table(tuple(saved.name.split("."))).metadata_location != saved.metadata


def restore_catalog(settings: StackSettings, backup: Backup | None, replace: bool = False) -> Restored:
    """Register every table of the warehouse that the catalog doesn't have, at its newest metadata file.

    ``backup``: has the registry's schemas, which are lost with the catalog where one database has both. ``replace``:
    also those that were made anew since in the same folders; their files stay.
    """
    catalog, store, done = open_catalog(settings), object_store(settings), Restored()
    if backup is not None:
        done.schemas = import_schemas(settings, backup)
        _make_namespaces(catalog, backup.manifest().namespaces)
    there = _names(catalog)
    for name, metadata in sorted(newest_metadata(store, settings.warehouse).items()):
        identifier = tuple(name.split("."))
        if name in there:
            if str(catalog.load_table(identifier).metadata.table_uuid) == _uuid(store, metadata):
                continue
            done.made_anew.append(name)
            if not replace:
                continue
            catalog.drop_table(identifier)
        _make_namespaces(catalog, {name.rpartition(".")[0]: {}})
        catalog.register_table(identifier, metadata)
        done.tables.append(name)
    return done


def restore_files(settings: StackSettings, backup: Backup, on_progress: OnProgress = silent) -> Restored:
    """Put back the files that the lake's tables need and the store has lost, as far as the backup has them."""
    catalog, store, done = open_catalog(settings), object_store(settings), Restored()
    for name in sorted(_names(catalog)):
        lost = _lost(catalog, store, backup, name, done)
        back = {each_: backup.file(each_) for each_ in lost if backup.file(each_).exists()}
        done.lost += sorted(lost - back.keys())

        def send(where: str, back: Mapping[str, Path] = back) -> int:
            return put_back(store, back[where], where)

        each(back, send, name, "files", on_progress)
        done.files += len(back)
        if back:
            done.tables.append(name)
    return done


def _lost(catalog: Catalog, store: S3FileSystem, backup: Backup, name: str, done: Restored) -> set[str]:
    """Return what a table needs and the store hasn't got. What tells of the rest is put back at once."""
    for _ in range(1000):
        try:
            return missing(store, needed(catalog.load_table(tuple(name.split(".")))))
        except FileNotFoundError as error:
            gone = re.search(r"s3://[^\s'\"]+|[\w.-]+/warehouse/[^\s'\"]+", str(error))
            where = None if gone is None else gone[0] if gone[0].startswith("s3://") else f"s3://{gone[0]}"
            if where is None or not backup.file(where).exists():
                return {where or name}
            put_back(store, backup.file(where), where)
            done.files += 1
    return set()


def import_schemas(settings: StackSettings, backup: Backup) -> bool:
    """Give the registry the saved schemas with their ids, if it has none; return whether it hadn't.

    Raises Unreachable.
    """
    base = httpx.URL(settings.schema_registry_url)
    try:
        has = httpx.get(base.copy_with(raw_path=SEARCH.encode()), timeout=60).raise_for_status().json()
        if has["count"]:
            return False
        sent = httpx.post(
            base.copy_with(path=IMPORT), content=backup.read(SCHEMAS), timeout=300,
            headers={"Content-Type": "application/zip"},
        )  # fmt: skip
        sent.raise_for_status()
    except httpx.HTTPError as error:
        raise Unreachable("The schema registry", settings.schema_registry_url, type(error).__name__) from error
    return True


def newest_metadata(store: S3FileSystem, warehouse: str) -> dict[str, str]:
    """Return table to the location of the newest metadata file below its folder, of all tables of a warehouse.

    Of two with one number the later is taken: one was written for a commit that lost, whose rows come again.
    """
    root = warehouse.removeprefix("s3://").rstrip("/")
    found: dict[str, tuple[int, float, str]] = {}
    for info in store.get_file_info(FileSelector(root, recursive=True)):
        numbered = _METADATA.search(info.path)
        if info.type == FileType.File and numbered is not None:
            name = ".".join(info.path[len(root) + 1 : numbered.start()].split("/"))
            since = info.mtime.timestamp() if info.mtime is not None else 0.0
            found[name] = max(found.get(name, (0, 0.0, "")), (int(numbered[1]), since, f"s3://{info.path}"))
    return {name: location for name, (_, _, location) in found.items()}


def _uuid(store: S3FileSystem, metadata: str) -> str:
    """Return which table a metadata file is of."""
    with store.open_input_stream(metadata.removeprefix("s3://"), compression=None) as stream:
        return str(json.loads(stream.read())["table-uuid"])


def _names(catalog: Catalog) -> set[str]:
    """Return the names of a catalog's tables."""
    names: Sequence[Any] = [name for space in catalog.list_namespaces() for name in catalog.list_tables(space)]
    return {".".join(name) for name in names}


def _make_namespaces(catalog: Catalog, namespaces: Mapping[str, Mapping[str, str]]) -> None:
    for name, properties in namespaces.items():
        try:
            catalog.create_namespace(name, dict(properties))
        except NamespaceAlreadyExistsError:
            continue


def _check(table: Table, saved: SavedTable) -> None:
    """Have a table that doesn't say of which topic it is wait for a resync: the topics here are others."""
    snapshot = table.current_snapshot()
    summary = {} if snapshot is None or snapshot.summary is None else snapshot.summary.additional_properties
    if not saved.topic_id and POSITIONS in summary:
        said = {name: value for name, value in summary.items() if name.startswith("lakehouse.")}
        said[TOPIC_ID] = f"before {uuid.uuid4()}"
        table.append(table.schema().as_arrow().empty_table(), snapshot_properties=said)
