"""`lakehouse backup` and `lakehouse restore`."""

from pathlib import Path
from typing import Annotated

import typer

from services.cli.output import UNUSABLE, Because, expected_errors, fail, print_json, progress
from services.operations.audit_trail import audited
from services.operations.backup.contents import Manifest, chosen
from services.operations.backup.make import back_up
from services.operations.backup.restore import Restored, restore_catalog, restore_files
from services.operations.backup.restore import restore as restore_all
from services.operations.backup.settings_file import write_settings
from services.stack.console import out
from services.stack.endpoints import StackSettings
from services.stack.lake import open_catalog
from services.stack.settings import env_file
from services.stack.starting import start

BACKUP_HELP = """Save tables, schemas, offsets, settings and secrets of a running lakehouse, and the lake's files.

The folder may have many backups; each copies only the files that the others haven't got. Nothing waits meanwhile. The
folder has the secrets of `.env`, so keep it as safe as that. Examples:

    lakehouse backup /mnt/backups/lake --because "every night"

    lakehouse backup /mnt/backups/lake --no-files
"""
RESTORE_HELP = """Restore a backup where there is no lakehouse yet, or what of one was lost.

Without an option: in a checkout without state, writes `.env` (its ports stay), starts catalog, registry and object
store, and fills them. Then `make up`, and `lakehouse resync --all`, which reads the source again: the topics are new.
`--catalog` registers the tables that the object store has and the catalog doesn't, and gives an empty registry its
schemas; `--files` puts back files that tables need and the store lost. What stopped may be run again. Examples:

    lakehouse restore /mnt/backups/lake

    lakehouse restore /mnt/backups/lake --at 2026-03-01T020000Z --files
"""

app = typer.Typer(rich_markup_mode="markdown")
Folder = Annotated[Path, typer.Argument(help="Where backups are.")]
START = ("catalog", "schema-registry")


@app.command("backup", help=BACKUP_HELP)
def backup(
    folder: Folder,
    files: Annotated[bool, typer.Option(help="The lake's files too; without, the store must keep them.")] = True,
    because: Because = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Make a backup."""
    with expected_errors(as_json), progress(not as_json) as on_progress:
        settings = StackSettings.load()
        with audited(open_catalog(settings), "backup", str(folder), because) as doing:
            made, manifest = back_up(settings, env_file(), folder, files, on_progress)
            doing.detail |= {"tables": len(manifest.tables), "bytes": manifest.bytes}
    if as_json:
        print_json({"backup": str(made.path), **manifest.to_json()})
    else:
        _print_backup(made.path, manifest)


def _print_backup(path: Path, manifest: Manifest) -> None:
    kept = "" if manifest.with_files else ", which the object store must keep"
    size = f"{manifest.files:,} files of {manifest.bytes / 2**20:,.1f} MiB"
    out.print(f"{path}: {len(manifest.tables)} tables, {size}{kept}.")
    out.print("It has the secrets of this lakehouse. `lakehouse restore` brings it back.")


@app.command("restore", help=RESTORE_HELP)
def restore(
    folder: Annotated[Path | None, typer.Argument(help="Where backups are.")] = None,
    at: Annotated[str | None, typer.Option(help="Which one, by its folder's name; the newest.")] = None,
    catalog: Annotated[bool, typer.Option("--catalog", help="Register the tables that the store has.")] = False,
    files: Annotated[bool, typer.Option("--files", help="Put back files that the store lost.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="With --catalog: also tables made anew since.")] = False,
    because: Because = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Restore a backup, or what was lost."""
    if (folder is None and not catalog) or (catalog and files):
        fail("say where the backup is, or --catalog; and one of --catalog and --files", UNUSABLE, as_json)
    with expected_errors(as_json), progress(not as_json) as on_progress:
        found = None if folder is None else chosen(folder, at)
        folder_of_stack = env_file().resolve().parent
        if found is None or catalog or files:
            start(folder_of_stack, START)
            settings = StackSettings.load()
            if files and found is not None:
                done = restore_files(settings, found, on_progress)
            else:
                done = restore_catalog(settings, found, replace)
            with audited(open_catalog(settings), "restore", str(folder or settings.warehouse), because) as doing:
                doing.detail |= {"tables": len(done.tables), "files": done.files}
        else:
            found.manifest()
            write_settings(found, folder_of_stack)
            start(folder_of_stack, START)
            settings = StackSettings.load()
            done = restore_all(settings, found, on_progress)
            with audited(open_catalog(settings), "restore", str(found.path), because) as doing:
                doing.detail |= {"tables": len(done.tables), "files": done.files}
    if as_json:
        print_json(done.to_json())
    else:
        _print(done, whole=not (catalog or files), replaced=replace)
    if done.lost or (done.made_anew and not replace):
        raise typer.Exit(1)


def _print(done: Restored, whole: bool, replaced: bool) -> None:
    out.print(
        f"{len(done.tables)} tables, {done.files:,} files put back"
        f"{', and the schemas, which the registry had none of' if done.schemas else ''}."
    )
    for location in done.lost:
        out.print(f"lost, and in no backup here: {location}")
    for name in () if replaced else done.made_anew:
        out.print(f"{name} was made anew since, and its folder has a table of more commits: --replace registers that.")
    if whole:
        out.print("Next: `make up`, then `lakehouse resync --all` and `lakehouse resync --events`: the topics are new.")
    elif done.lost:
        out.print("Next: `lakehouse resync TABLE` reads a mirrored table's rows again (infra/runbooks/file-lost.md).")
