"""Consoles of fitting width, and tables that stay readable in narrow ones.

In a terminal lines have its width. In a pipe they have that of COLUMNS, and without it they are as long as they need to
be: nothing is cut or broken, so that `grep` finds it.
"""

import os
import sys
from collections.abc import Iterator
from typing import Any

from rich.columns import Columns
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

# What a line may need in a pipe.
UNLIMITED = 100_000
# Cells of more characters are broken at words before a table gives up its columns, but not into fewer than these.
PROSE, NARROWEST = 24, 20


def piped_width() -> int:
    """Return how wide lines are where there is no terminal."""
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) else UNLIMITED


def _console(stderr: bool) -> Console:
    width = None if (sys.stderr if stderr else sys.stdout).isatty() else piped_width()
    # Names and values are shown as they are, whatever markup they look like.
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)


out, err = _console(stderr=False), _console(stderr=True)


class Grid(Table):
    """A table with a row a line where that fits, else a few lines a row, each value after its column's name.

    Longer texts are broken at words first. Nothing is ever cut. A cell is shown as it is; one with a style is a Text.
    """

    def __init__(self, *headers: str, title: str | None = None, bordered: bool = True) -> None:
        """Have these columns, and those that are added."""
        super().__init__(*headers, title=title, title_justify="left")
        if not bordered:
            self.box, self.pad_edge, self.header_style = None, False, "bold"
        self._records: list[list[Text]] = []

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row."""
        texts = [cell if isinstance(cell, Text) else Text(str(cell)) for cell in cells]
        self._records.append(texts)
        super().add_row(*texts, **options)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render as a table, or row by row."""
        if self._fits(console, options):
            yield from super().__rich_console__(console, options)
        else:
            yield from self._folded(options.max_width)

    def _fits(self, console: Console, options: ConsoleOptions) -> bool:
        """Return whether it can be a table in which no word is broken, and say where lines may be."""
        wide = options.update(width=UNLIMITED)
        needed = Measurement.get(console, wide, self).maximum
        sizes = [
            [Measurement.get(console, wide, cell) for cell in (column.header, *column.cells)] for column in self.columns
        ]
        whole = [max(size.maximum for size in column) for column in sizes]
        # Rich makes the widest columns equally narrow, as far as it must.
        level = max(
            [NARROWEST, *(size.minimum for column, w in zip(sizes, whole, strict=True) if w > PROSE for size in column)]
        )
        for column, width in zip(self.columns, whole, strict=True):
            column.overflow, column.no_wrap = "fold", width <= max(PROSE, level)
            needed -= 0 if column.no_wrap else width - level
        return needed <= options.max_width

    def _folded(self, width: int) -> Iterator[RenderableType]:
        if self.title:
            yield Text(str(self.title), "table.title")
        labels = [str(column.header) for column in self.columns[1:]]
        for name, *cells in self._records:
            head = name.copy()
            head.stylize("bold")
            yield head
            pairs = [Text.assemble((f"{label} " if label else "", "dim"), cell)
                     for label, cell in zip(labels, cells, strict=True) if cell.plain]  # fmt: skip
            short = [pair for pair in pairs if pair.cell_len <= width // 2 - 1]
            if short:
                yield Padding.indent(Columns(short, padding=(0, 3)), 2)
            yield from (Padding.indent(pair, 2) for pair in pairs if pair not in short)
