"""A folder of backups: which are complete, which is meant, and what of `.env` is a place's own."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from services.operations.backup.contents import MANIFEST, SETTINGS, Backup, Manifest, SavedTable, backups, chosen
from services.operations.backup.copying import each, missing, put_back, save
from services.operations.backup.errors import CannotRestore
from services.operations.backup.restore import newest_metadata
from services.operations.backup.settings_file import KEPT, STARTED, merged, write_settings
from services.stack.progress import silent

TABLE = SavedTable("shop.orders", "s3://lake/warehouse/shop/orders/metadata/00001-a.metadata.json", 7, 12, "topic")
SAVED = "# Secrets\nKAFKA_PORT=9092\nCATALOG_HEAP=256m\nPROTECTION_KEY=old\nWAREHOUSE=s3://lake/warehouse\n"


def made(folder: Path, hour: int, complete: bool = True) -> Backup:
    backup = Backup.begun(folder, datetime(2026, 3, 1, hour, tzinfo=UTC))
    backup.write(SETTINGS, SAVED.encode())
    if complete:
        backup.finish(Manifest("2026-03-01", "s3://lake/warehouse", (TABLE,), {"shop": {}}, 12, 99, True))
    return backup


def test_the_newest_complete_backup_is_meant_or_the_one_that_is_named(tmp_path: Path) -> None:
    first, second = made(tmp_path, 1), made(tmp_path, 2)
    made(tmp_path, 3, complete=False)
    assert backups(tmp_path) == [first, second]
    assert chosen(tmp_path, None) == second
    assert chosen(tmp_path, first.name) == first
    assert first.manifest().tables == (TABLE,)
    with pytest.raises(CannotRestore, match=f"no backup x. Choose from: {first.name}, {second.name}"):
        chosen(tmp_path, "x")
    with pytest.raises(CannotRestore, match="no complete backup"):
        chosen(tmp_path / "nowhere", None)


@pytest.mark.parametrize("said", ["no json", "[]", "{}", json.dumps({"tables": [{"nme": 1}]})])
def test_what_is_no_manifest_is_refused(tmp_path: Path, said: str) -> None:
    backup = made(tmp_path, 1)
    (backup.path / MANIFEST).write_text(said)
    with pytest.raises(CannotRestore, match="isn't the manifest"):
        backup.manifest()


def test_a_backup_of_another_version_is_refused(tmp_path: Path) -> None:
    backup = made(tmp_path, 1)
    said = json.loads((backup.path / MANIFEST).read_text()) | {"version": 2}
    (backup.path / MANIFEST).write_text(json.dumps(said))
    with pytest.raises(CannotRestore, match="version 2; this release reads 1"):
        backup.manifest()


def test_what_a_backup_has_of_its_own_is_its_owners_alone(tmp_path: Path) -> None:
    backup = made(tmp_path, 1)
    assert backup.path.stat().st_mode & 0o077 == 0
    assert (backup.path / SETTINGS).stat().st_mode & 0o077 == 0
    assert made(tmp_path / "new", 1).folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("here", "restored"),
    [
        pytest.param("", SAVED, id="nothing is there"),
        pytest.param("KAFKA_PORT=21000\n", SAVED.replace("9092", "21000"), id="ports are the place's"),
        pytest.param("CATALOG_HEAP=1g\n", SAVED.replace("256m", "1g"), id="memory is the place's"),
        pytest.param("PROTECTION_KEY=new\nWAREHOUSE=s3://other/x\n", SAVED, id="secrets and the lake are the backup's"),
        pytest.param("# KAFKA_PORT=1\nOTHER=1\n", SAVED, id="what isn't set, or not saved"),
    ],
)
def test_settings_of_a_place_and_of_a_backup(here: str, restored: str) -> None:
    assert merged(SAVED, here) == restored


def test_settings_are_written_once_and_never_over_those_of_a_stack_that_was_started(tmp_path: Path) -> None:
    backup, place = made(tmp_path / "backups", 1), tmp_path / "place"
    place.mkdir()
    (place / ".env").write_text("KAFKA_PORT=21000\n")
    write_settings(backup, place)
    assert (place / ".env").read_text() == merged(SAVED, "KAFKA_PORT=21000\n")
    assert (place / ".env").stat().st_mode & 0o077 == 0
    assert (place / KEPT).read_text() == "KAFKA_PORT=21000\n"
    (place / STARTED).parent.mkdir(parents=True)
    (place / STARTED).write_text("process")
    # The same again, as after a restore that was broken off.
    write_settings(backup, place)
    (place / ".env").write_text("PROTECTION_KEY=new\n")
    with pytest.raises(CannotRestore, match="was started before, with other secrets"):
        write_settings(backup, place)
    assert (place / ".env").read_text() == "PROTECTION_KEY=new\n"


def test_files_are_copied_once_there_and_back(tmp_path: Path) -> None:
    (tmp_path / "store/lake/a b").mkdir(parents=True)
    (tmp_path / "store/lake/a b/1.parquet").write_bytes(b"data")
    store = SubTreeFileSystem(str(tmp_path / "store"), LocalFileSystem())
    location, kept = "s3://lake/a b/1.parquet", tmp_path / "kept/lake/a b/1.parquet"
    assert save(store, location, kept) == 4
    assert kept.read_bytes() == b"data"
    kept.write_bytes(b"DATA")
    assert save(store, location, kept) == 4
    assert kept.read_bytes() == b"DATA", "what is there whole isn't copied again"
    with pytest.raises(FileNotFoundError):
        save(store, "s3://lake/gone", tmp_path / "kept/gone")
    assert not put_back(store, kept, location)
    (tmp_path / "store/lake/a b/1.parquet").unlink()
    assert missing(store, {location}) == {location}
    assert put_back(store, kept, location)
    assert missing(store, {location}) == set()
    found = each([location, "s3://lake/gone"], lambda it: save(store, it, kept), "lake", "files", silent)
    assert found[location] == 4
    assert isinstance(found["s3://lake/gone"], FileNotFoundError)


def test_a_tables_newest_metadata_is_found(tmp_path: Path) -> None:
    for name in (
        "shop/orders/metadata/00009-a.metadata.json", "shop/orders/metadata/00010-b.metadata.json",
        "shop/orders/metadata/snap-1.avro", "shop/orders/data/00011-x.parquet", "a/b/c/metadata/00000-z.metadata.json",
    ):  # fmt: skip
        path = tmp_path / "lake/warehouse" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    store = SubTreeFileSystem(str(tmp_path), LocalFileSystem())
    assert newest_metadata(store, "s3://lake/warehouse") == {
        "shop.orders": "s3://lake/warehouse/shop/orders/metadata/00010-b.metadata.json",
        "a.b.c": "s3://lake/warehouse/a/b/c/metadata/00000-z.metadata.json",
    }
