"""`lakehouse contract`: what is promised of tables, made from the source and compared with source and lake."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from pipelines.sources.base.database import SourceSession
from pipelines.sources.base.tables import DescribedTable
from pipelines.sources.kinds import source_database
from pipelines.specs.load import load_specs
from quality import odcs
from quality.contract import Contract
from services.cli.output import CHECK_FAILED, UNUSABLE, expected_errors, fail, print_json
from services.operations.contracts.describe import NoSuchTable, describe
from services.operations.contracts.diff import Difference, differences, own_differences
from services.operations.contracts.starter import starter
from services.operations.contracts.summary import protections
from services.operations.maintain.needs import source_of
from services.stack.console import Grid, out
from services.stack.endpoints import StackSettings
from services.stack.lake import beside, open_catalog, tables

app = typer.Typer(help="Contracts of tables.", no_args_is_help=True, rich_markup_mode="markdown")
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Folder = Annotated[Path, typer.Option("--in", help="The folder of contract files.", show_default="quality/contracts")]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="`orders` or `public.orders`.")]

INIT_HELP = """Write the contract that a table could have today, as a draft in the Open Data Contract Standard.

Its columns, types, keys, allowed values and constraints are the source's; who owns it, what is personal in it and what
becomes of a row that breaks a rule are for its owner to say. Examples:

    lakehouse contract init orders

    lakehouse contract init public.orders --in /tmp/contracts --force
"""

DIFF_HELP = """Compare contracts with the source and the lake as they are now. All of them unless some are named.

Exit code 1 if anything is breaking: a promise that isn't so. For a company's own migrations, in their CI. Examples:

    lakehouse contract diff

    lakehouse contract diff orders customers --json | jq '.contracts[].differences[] | select(.breaking)'
"""

CHECK_HELP = """Read every contract file and say whether it can be used, and what it protects. Needs no stack.

Exit code 2 if one can't be. Examples:

    lakehouse contract check

    lakehouse contract check --in contracts/ --json
"""


@app.command("init", help=INIT_HELP)
def init(
    table: TableName,
    folder: Folder = odcs.DIRECTORY,
    force: Annotated[bool, typer.Option(help="Overwrite the file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a draft."""
    with expected_errors(as_json):
        settings = StackSettings.load()
        specs = load_specs()
        with _source(settings) as session:
            found = _described(settings, session, table)
        path = folder / f"{found.schema}.{found.name}.yaml"
        document = starter(settings.source_name, found, specs.freshness(found.schema, found.name)).to_yaml()
        odcs.parse(document)
        if path.exists() and not force:
            fail(f"{path} is there already. --force overwrites it.", UNUSABLE, as_json)
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(document, encoding="utf-8")
    if as_json:
        print_json({"file": str(path), "table": f"{found.schema}.{found.name}", "columns": len(found.columns)})
    else:
        out.print(f"Wrote {path}: {len(found.columns)} columns. Name its owner, then `lakehouse contract diff`.")


@app.command("check", help=CHECK_HELP)
def check(folder: Folder = odcs.DIRECTORY, as_json: AsJson = False) -> None:
    """Read the files."""
    found = _contracts(folder, [], as_json)
    if as_json:
        print_json({"contracts": [_told(contract) for contract in found]})
    else:
        _print_contracts(found, folder)


def _print_contracts(found: list[Contract], folder: Path) -> None:
    grid = Grid("table", "version", "status", "owner", "columns", "rules", "checks", "freshness", "protected", "")
    for contract in found:
        freshness = "-" if contract.freshness_seconds is None else f"{contract.freshness_seconds:g} s"
        grid.add_row(contract.source_name, contract.version, contract.status, contract.owner or "-",
                     str(len(contract.columns)), str(len(contract.rules)), str(len(contract.checks)), freshness,
                     ", ".join(f"{name} ({how})" for name, how in contract.protected.items()),
                     "blocking" if contract.blocking else "")  # fmt: skip
    out.print(grid if found else f"There are no contracts in {folder}. `lakehouse contract init TABLE` writes one.")


@app.command("diff", help=DIFF_HELP)
def diff(
    names: Annotated[list[str] | None, typer.Argument(metavar="[TABLE]...")] = None,
    folder: Folder = odcs.DIRECTORY,
    as_json: AsJson = False,
) -> None:
    """Compare."""
    contracts = _contracts(folder, names or [], as_json)
    with expected_errors(as_json):
        settings = StackSettings.load()
        specs, catalog = load_specs(), open_catalog(settings)
        lake = {source_of(t): t for t in (*tables(catalog, settings), *beside(catalog, settings))}
        found = []
        with _source(settings) as session:
            for contract in contracts:
                there = lake.get(contract.table)
                types = None if there is None else {f.name: str(f.field_type) for f in there.schema().fields}
                protected = None if there is None else protections(there)
                if contract.source_name in specs.streams or contract.source_name in specs.derived:
                    found.append((contract, list(own_differences(contract, types, protected))))
                    continue
                try:
                    source = describe(session, *contract.table)
                except NoSuchTable:
                    source = None
                found.append((contract, list(differences(contract, source, types, protected))))
    breaking = any(each.breaking for _, all_of_it in found for each in all_of_it)
    if as_json:
        print_json({"breaking": breaking, "contracts": [
            {"table": contract.source_name, "version": contract.version, "differences": [asdict(d) for d in said]}
            for contract, said in found
        ]})  # fmt: skip
    else:
        _print(found)
    if breaking:
        raise typer.Exit(CHECK_FAILED)


def _print(found: list[tuple[Contract, list[Difference]]]) -> None:
    for contract, said in found:
        broken = sum(each.breaking for each in said)
        word = f"{broken} broken" if broken else "kept"
        out.print(f"{contract.source_name} {contract.version}: {word}")
        for each in said:
            out.print(f"  {'✗' if each.breaking else '·'} {each}")


def _contracts(folder: Path, names: list[str], as_json: bool) -> list[Contract]:
    with expected_errors(as_json):
        found = odcs.load(folder)
    wanted = [contract for contract in found.values() if not names or _is_named(contract, names)]
    missing = [name for name in names if not any(_is_named(contract, [name]) for contract in wanted)]
    if missing:
        fail(f"{folder} has no contract of {', '.join(missing)}. `lakehouse contract init TABLE` writes one.",
             UNUSABLE, as_json)  # fmt: skip
    return wanted


def _is_named(contract: Contract, names: list[str]) -> bool:
    return contract.source_name in names or contract.table[1] in names


def _told(contract: Contract) -> dict[str, Any]:
    return {**asdict(contract), "table": contract.source_name}


def _source(settings: StackSettings) -> SourceSession:
    return source_database(settings.source_address).connect()


def _described(settings: StackSettings, source: SourceSession, name: str) -> DescribedTable:
    """Return the table of the source; of a name alone, from the first captured schema that has it.

    Raises NoSuchTable.
    """
    schema, dot, table = name.partition(".")
    if dot:
        return describe(source, schema, table)
    for schema in settings.schemas:
        try:
            return describe(source, schema, name)
        except NoSuchTable:
            continue
    raise NoSuchTable(f"no captured schema ({', '.join(settings.schemas)}) has a table {name}")
