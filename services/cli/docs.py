"""`lakehouse docs`: what checks have found, as a static site."""

import json
from pathlib import Path
from typing import Annotated

import typer

from quality.docs import Page, build
from services.checker import record
from services.cli.output import UNUSABLE, expected_errors, fail, print_json
from services.stack.console import out
from services.stack.endpoints import StackSettings
from services.stack.lake import open_catalog
from services.stack.settings import CHECKOUT

HELP = """Write what checks have found as a static site (Great Expectations' Data Docs), to open or serve as it is.

It tells how many rows kept or broke each promise, and has no sample of them. Example:

    lakehouse docs --out site
"""
DIRECTORY = CHECKOUT / ".lakehouse/docs"
app = typer.Typer(rich_markup_mode="markdown")


@app.command("docs", help=HELP)
def docs(
    folder: Annotated[
        Path, typer.Option("--out", help="Where to; what is there is replaced.", show_default=".lakehouse/docs")
    ] = DIRECTORY,
    runs: Annotated[int, typer.Option(min=1, help="How many runs of each table, the newest.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Write Data Docs."""
    if folder.exists() and not (folder.is_dir() and ((folder / "index.html").exists() or not any(folder.iterdir()))):
        fail(f"{folder} has something else in it. Name another folder, or one that isn't there.", UNUSABLE, as_json)
    with expected_errors(as_json):
        catalog = open_catalog(StackSettings.load())
        chosen = record.history(catalog, runs)
        documents = record.document(catalog, [run.run for run in chosen])
        pages = [Page(run.table, run.snapshot_id, run.started_at, json.loads(documents[run.run]))
                 for run in chosen if run.run in documents]  # fmt: skip
        first = build(folder, pages)
    if as_json:
        print_json({"index": str(first), "runs": len(pages)})
    elif pages:
        out.print(f"{len(pages)} runs: {first}")
    else:
        out.print("Nothing was checked yet: `lakehouse check` asks for it.")
