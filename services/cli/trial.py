"""`lakehouse backfill TABLE --branch`: try another definition of a derived table beside the one that readers see."""

import json
from pathlib import Path
from typing import Any

from pipelines.specs.derived import DerivedSpec
from pipelines.specs.load import SpecError, load_spec
from services.cli.output import print_json, progress
from services.operations.audit_trail import audited
from services.stack.console import Grid, out
from services.stack.derived_tables import compute
from services.stack.endpoints import StackSettings
from services.stack.lake import open_catalog
from services.stack.progress import Progress


def try_definition(table: str, branch: str, spec: Path | None, because: str | None, as_json: bool) -> None:
    """Compute the table by the spec on a branch, and print how it differs; without a spec: remove the branch."""
    arguments = [table, "--branch", branch]
    if spec is not None:
        arguments += ["--definition", _definition(spec, table).model_dump_json()]
    with progress(not as_json) as on_progress:
        on_progress(Progress(table, f"computing on branch {branch}" if spec else f"removing branch {branch}"))
        with audited(open_catalog(StackSettings.load()), "backfill", table, because) as doing:
            found: dict[str, Any] = json.loads("".join(compute(arguments)))
            doing.detail |= {"branch": branch, "tried": spec is not None}
    if as_json:
        print_json(found)
    elif spec is None:
        said = "is removed" if found["discarded"] else "wasn't there"
        out.print(f"{table}: branch {branch} {said}.")
    else:
        _print(found)


def _definition(path: Path, table: str) -> DerivedSpec:
    found = load_spec(path)
    if not isinstance(found, DerivedSpec) or found.table != table:
        raise SpecError(f"{path} is the spec of {found.table}, not of the derived table {table}: give it one of that")
    return found


def _print(found: dict[str, Any]) -> None:
    table, branch = found["table"], found["branch"]
    grid = Grid("rows that", "", title=f"{table}, as it would be")
    for what, said in (
        ("rows", "it would have"), ("missing", "readers don't have"), ("extra", "would be gone"),
        ("differing", "would have other values"),
    ):  # fmt: skip
        grid.add_row(said, f"{found[what]:,}")
    for column, rows in sorted(found["columns"].items()):
        if rows:
            grid.add_row(f"differ in {column}", f"{rows:,}")
    out.print(grid)
    for example in found["examples"]:
        key = ", ".join(f"{name} {value}" for name, value in example["key"].items())
        values = "; ".join(f"{n}: {v['now']} now, {v['tried']} tried" for n, v in example.get("values", {}).items())
        out.print(f"{example['kind']}: {key}{f': {values}' if values else ''}", markup=False)
    for what, said in (("added", "New columns, empty for readers"), ("dropped", "Columns that it doesn't have")):
        if found[what]:
            out.print(f"{said}: {', '.join(found[what])}", markup=False)
    out.print(f"Read it: SELECT * FROM lake.{table} VERSION AS OF '{branch}'", markup=False)
    out.print("Take it: put the file into pipelines/specs, and `make up s=streams`", markup=False)
    out.print(f"Leave it: lakehouse backfill {table} --branch {branch} --discard", markup=False)
