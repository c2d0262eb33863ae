"""Lay a table out as its spec says, and describe it as its contract does."""

from dataclasses import dataclass, field

from pipelines.evolve.describe import Description
from pipelines.lake.clock import check_clock
from pipelines.lake.partitioning import LayoutError, apply_layout
from pipelines.lake.table import LakeTable
from pipelines.specs.layout import Layout
from quality.contract import Contract


@dataclass(frozen=True)
class Arranged:
    """What was changed of a table. ``refused``: why it can't be laid out as its spec says, where it can't."""

    changes: list[str] = field(default_factory=list)
    refused: str | None = None


class Arrangement:
    """One table's layout and description, each seen to once, and whenever the table's columns change."""

    def __init__(self, layout: Layout, contract: Contract | None) -> None:
        self._layout, self._description = layout, Description(contract)
        self._laid_out: tuple[str, int] | None = None

    def apply(self, table: LakeTable) -> Arranged:
        """Arrange the table. A layout that can't be had keeps nobody from writing."""
        check_clock(table)
        changes, refused = [], None
        if self._laid_out != table.identity:
            try:
                changes += apply_layout(table, self._layout)
            except LayoutError as error:
                refused = str(error)
            self._laid_out = table.identity
        return Arranged([*changes, *(f"described {name}" for name in self._description.write(table))], refused)
