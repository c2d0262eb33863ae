"""Layout: how a table is partitioned and sorted, as its spec says. Changed at any time without a rewrite: what was
written before keeps its layout until it is compacted. See infra/decisions/026-layout.md.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict

TIMES = ("year", "month", "day", "hour")
_CALL = re.compile(r"(?P<transform>\w+)\(\s*(?:(?P<width>\d+)\s*,\s*)?(?P<column>[^(),]+)\)")
_EXAMPLES = "`column`, `year(column)`, `month(…)`, `day(…)`, `hour(…)`, `bucket(16, column)` or `truncate(10, column)`"


@dataclass(frozen=True)
class Term:
    """A transform of one column, in Iceberg's words; ``width`` of ``bucket`` and ``truncate`` alone."""

    transform: str
    column: str
    width: int | None = None

    def __str__(self) -> str:
        if self.transform == "identity":
            return self.column
        return f"{self.transform}({'' if self.width is None else f'{self.width}, '}{self.column})"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError."""
        found = _CALL.fullmatch(text.strip())
        if found is None:
            if not text.strip() or set(text) & set("(),"):
                raise ValueError(f"{text!r} is none of {_EXAMPLES}")
            return cls("identity", text.strip())
        transform, width = found["transform"], found["width"]
        if transform not in (*TIMES, "identity", "bucket", "truncate") or (
            (transform in ("bucket", "truncate")) is (width is None)
        ):
            raise ValueError(f"{text!r} is none of {_EXAMPLES}")
        if width is not None and not int(width):
            raise ValueError(f"{text!r}: the width must be more than 0")
        return cls(transform, found["column"].strip(), None if width is None else int(width))

    @classmethod
    def of(cls, transform: str, column: str) -> Self:
        """From Iceberg's own text of a transform, such as ``bucket[16]``."""
        name, _, width = transform.rstrip("]").partition("[")
        return cls(name, column, int(width) if width else None)


def _canonical(text: str) -> str:
    return str(Term.parse(text))


TermText = Annotated[str, AfterValidator(_canonical)]


class Layout(BaseModel):
    """``partition``: terms as of :class:`Term`; None: as the table has it. ``sort``: what files are sorted by when they
    are rewritten; None: as ``upkeep.sort`` says.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    partition: tuple[TermText, ...] | None = None
    sort: tuple[TermText, ...] | None = None

    @property
    def sort_terms(self) -> list[Term]:
        """What files are sorted by."""
        return [Term.parse(text) for text in self.sort or ()]
