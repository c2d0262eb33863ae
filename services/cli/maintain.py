"""`lakehouse maintain`: what tables need to stay small and fast, and having it done."""

from dataclasses import asdict
from typing import Annotated

import typer

from pipelines.maintenance.plan import RequestKind
from pipelines.specs.load import load_specs
from services.cli.output import (
    CHECK_FAILED,
    UNUSABLE,
    Because,
    expected_errors,
    fail,
    print_json,
    progress,
)
from services.operations.audit_trail import audited
from services.operations.maintain.needs import Need, needs
from services.operations.maintain.requests import Answer, ask
from services.stack.console import Grid, out
from services.stack.endpoints import StackSettings
from services.stack.lake import open_catalog
from services.stack.words import size

HELP = """Keep tables small and fast: rewrite small files, give up old snapshots, delete files nobody refers to.

The mirror does this by itself, between its batches, as each table's spec says. This asks it to do now what is due, or
with `--now` all of it, and waits. With `--purge` it leaves nothing in any file that isn't in the table as it is now
(for columns that are protected from now on, say): every older snapshot goes, and every tag. Examples:

    lakehouse maintain --dry-run

    lakehouse maintain orders --now

    lakehouse maintain customers --purge --because "mail is protected now"
"""

app = typer.Typer(rich_markup_mode="markdown")


@app.command("maintain", help=HELP)
def maintain(
    names: Annotated[list[str] | None, typer.Argument(metavar="[TABLE]…", help="`orders` or `shop.orders`.")] = None,
    now: Annotated[bool, typer.Option("--now", help="Everything, whether it is due or not.")] = False,
    purge: Annotated[
        bool, typer.Option("--purge", help="Give up all older snapshots, with whatever only they have.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what is due.")] = False,
    because: Because = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for the mirror.")] = 600.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Maintain tables."""
    if purge and (now or dry_run or not names):
        fail("--purge takes tables by name, and neither --now nor --dry-run", UNUSABLE, as_json)
    asked = RequestKind.PURGE if purge else RequestKind.EVERYTHING if now else RequestKind.DUE
    with expected_errors(as_json), progress(not as_json) as on_progress:
        settings = StackSettings.load()
        catalog = open_catalog(settings)
        found = needs(catalog, settings, load_specs(), names or ())
        answers = None
        if not dry_run:
            chosen = [need.table for need in found if need.due or asked is not RequestKind.DUE]
            with audited(catalog, "purge" if purge else "maintain", ", ".join(names or ()) or "all", because) as doing:
                answers = ask(catalog, chosen, asked, timeout, on_progress)
                doing.detail |= {"tables": len(chosen), "tasks": sorted({answer.task for answer in answers})}
    if as_json:
        print_json({"tables": [asdict(need) for need in found], "done": [asdict(a) for a in answers or ()],
                    "dry_run": dry_run})  # fmt: skip
    elif answers is None:
        _print_needs(found)
    else:
        _print_answers(answers)
    if any(answer.error for answer in answers or ()):
        raise typer.Exit(CHECK_FAILED)


def _print_needs(found: list[Need]) -> None:
    grid = Grid("table")
    for name in ("rows", "deleted", "data files", "delete files", "size", "snapshots", "scan cost"):
        grid.add_column(name, justify="right")
    grid.add_column("due")
    for need in found:
        h = need.health
        grid.add_row(
            need.table, f"{h.records - h.deleted:,}", f"{h.delete_share:.0%}", f"{h.data_files:,}",
            f"{h.delete_files:,}", size(h.bytes), f"{h.snapshots:,}", f"{need.scan_cost:.2f}",
            "; ".join(f"{due.task}: {due.why}" for due in need.due) or "-",
        )  # fmt: skip
    out.print(grid)


def _print_answers(answers: list[Answer]) -> None:
    if not answers:
        out.print("Nothing was due.")
        return
    grid = Grid("table", "task", "why")
    for name in ("files", "snapshots", "rewritten", "seconds"):
        grid.add_column(name, justify="right")
    for answer in answers:
        if answer.error:
            grid.add_row(answer.table, answer.task, f"failed: {answer.error}", "", "", "", "")
            continue
        grid.add_row(
            answer.table, answer.task, answer.why, f"{answer.files_before} → {answer.files_after}",
            f"{answer.snapshots_before} → {answer.snapshots_after}", size(answer.bytes or 0), f"{answer.seconds:.1f}",
        )  # fmt: skip
    out.print(grid)
