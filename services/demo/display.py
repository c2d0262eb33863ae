"""What the demo prints."""

from typing import Any

from rich.rule import Rule
from rich.text import Text

from services.stack.console import Grid, out
from services.verify.report import Report

# Of a heading, where lines have no width.
HEADING = 80


def head(title: str) -> None:
    """Print a heading."""
    out.print(Rule(title, align="left"), width=min(out.width, HEADING))


def warn(sign: str, text: str, style: str = "yellow") -> None:
    """Print what somebody should notice."""
    out.print(Text.assemble("  ", (sign, style), f" {text}"))


def print_proof(report: Report) -> None:
    """Print how source and lake compare: a line a table, then what differs."""
    grid = Grid("table")
    for name in ("rows in the source", "rows in the lake", "columns compared", "differing", "verdict"):
        grid.add_column(name, justify="right")
    for table in report.tables:
        differing = table.differing + table.missing + table.extra + table.duplicates
        verdict = Text("equal", "green") if table.equal else Text("differs", "red")
        cells = (table.rows_source, table.rows_lake, table.columns_compared, differing)
        grid.add_row(table.table, *(f"{cell:,}" for cell in cells), verdict)
    out.print(grid)
    for table in report.tables:
        for name, why in table.not_compared.items():
            out.print(f"  not compared: {table.table}.{name}: {why}")
        for problem in table.problems:
            warn("✗", f"{table.table}: {problem}", "red")
        for example in table.examples:
            warn("✗", f"{table.table} {example.kind}: {example.key} {example.values}", "red")


def print_moments(moments: list[tuple[str, str, str, str]]) -> None:
    """Print the orders as of some moments: time, snapshot, how many, and how many by status."""
    grid = Grid("orders as of", "snapshot", "orders", "by status")
    for moment in moments:
        grid.add_row(*moment)
    out.print(grid)


def print_letters(found: list[dict[str, Any]]) -> None:
    """Print dead letters."""
    grid = Grid("position", "stage", "reason", "message")
    for letter in sorted(found, key=lambda row: (row["topic"], row["partition"], row["offset"])):
        position = f"{letter['topic']}:{letter['partition']}:{letter['offset']}"
        grid.add_row(position, letter["stage"], letter["reason"], letter["message"])
    out.print(grid)


def print_files(found: list[tuple[str, str, str, str]]) -> None:
    """Print tables with how many data files, delete files and snapshots they have."""
    grid = Grid("table")
    for name in ("data files", "delete files", "snapshots"):
        grid.add_column(name, justify="right")
    for table in found:
        grid.add_row(*table)
    out.print(grid)
