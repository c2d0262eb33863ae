"""`lakehouse capture`: leave tables or columns of the source out, and take them in again."""

from typing import Annotated

import typer

from services.cli.output import UNUSABLE, NeededBecause, expected_errors, fail, need_reason, print_json
from services.operations.audit_trail import audited
from services.stack.console import out
from services.stack.endpoints import StackSettings
from services.stack.lake import open_catalog
from services.stack.source import connect

app = typer.Typer(help="What is read of the source.", no_args_is_help=True, rich_markup_mode="markdown")

EXCLUDE_HELP = """Leave a table out from now on, or one column of it, so that it doesn't stop the others.

The lake's table stays as it is; of a column its spec says what becomes of it. Capture sees to it within seconds. Its
task, if it has failed, starts again. Examples:

    lakehouse capture exclude documents --column scan --because "scans are larger than Kafka takes"

    lakehouse capture exclude archive.documents --because "it isn't read by anybody"
"""

INCLUDE_HELP = """Take in again what `lakehouse capture exclude` has left out: its rows are read from the source again.

Example:

    lakehouse capture include documents --column scan
"""

TableName = Annotated[str, typer.Argument(metavar="TABLE", help="`table` or `schema.table`.")]
Column = Annotated[str | None, typer.Option(help="Only this column.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command("exclude", help=EXCLUDE_HELP)
def exclude(
    table: TableName,
    because: NeededBecause,
    column: Column = None,
    as_json: AsJson = False,
) -> None:
    """Leave a table or a column out."""
    need_reason(because, as_json)
    with expected_errors(as_json):
        settings = StackSettings.load()
        with connect(settings) as source:
            schema, name = _split(table)
            found = source.describe(schema, name)
            if found is None:
                fail(f"the source has no table {schema}.{name}. `make status` lists those captured; of a schema other"
                     " than public: `schema.table`.", UNUSABLE, as_json)  # fmt: skip
            columns = {each.name: each for each in found.columns}
            if column is not None and column not in columns:
                fail(f"{schema}.{name} has no column {column}. Columns: {', '.join(columns)}.", UNUSABLE, as_json)
            if column is not None and columns[column].key:
                fail(f"{column} is of {schema}.{name}'s key, without which no row is known again. Leave the table out.",
                     UNUSABLE, as_json)  # fmt: skip
            with audited(open_catalog(settings), "exclude", _target(schema, name, column), because):
                source.exclude(schema, name, column, because)
    if as_json:
        print_json({"table": f"{schema}.{name}", "column": column, "because": because})
    else:
        out.print(f"{_target(schema, name, column)} is left out from now on.")


@app.command("include", help=INCLUDE_HELP)
def include(table: TableName, column: Column = None, as_json: AsJson = False) -> None:
    """Take a table or a column in again."""
    with expected_errors(as_json):
        settings = StackSettings.load()
        with connect(settings) as source:
            schema, name = _split(table)
            with audited(open_catalog(settings), "include", _target(schema, name, column), None) as doing:
                doing.detail["was_excluded"] = known = source.include(schema, name, column)
    if not known:
        fail(f"{_target(schema, name, column)} isn't excluded (`make status` shows what is)", UNUSABLE, as_json)
    if as_json:
        print_json({"table": f"{schema}.{name}", "column": column})
    else:
        out.print(f"{_target(schema, name, column)} is taken in again.")


def _split(table: str) -> tuple[str, str]:
    schema, _, name = table.rpartition(".")
    return schema or "public", name


def _target(schema: str, name: str, column: str | None) -> str:
    return f"{schema}.{name}" + (f", column {column}" if column else "")
