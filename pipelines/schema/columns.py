"""Columns of a captured table, and its shape in one version of its events."""

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pipelines.schema.lake_types import LakeType

# Of so many tables and versions of them the shape is kept. It is one object each time, and so is what is made of it.
SHAPES = 1_000


@dataclass(frozen=True)
class SourceColumn:
    """A column of a captured table.

    ``name``: as the source has it; ``avro``: its Avro schema in the events; ``type``: its type in the lake;
    ``has_default``: whether the source gives it a default (which rows older than the column then show, though no event
    says so); ``field``: what the events call it: Avro's names have fewer characters.
    """

    name: str
    avro: Any = dataclasses.field(hash=False)
    type: LakeType
    has_default: bool = False
    field: str = ""


@dataclass(frozen=True)
class TableShape:
    """A captured table as one version of its events' schema describes it.

    ``left_out``: columns that the lake has no type for, each with why. ``unexplained``: columns of which only the
    source's schema log tells what their values are, with their declared types.
    """

    topic: str
    schema_name: str
    table_name: str
    columns: tuple[SourceColumn, ...]
    namespace: str
    left_out: tuple[tuple[str, str], ...] = ()
    unexplained: tuple[tuple[str, str], ...] = ()

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """The source's columns, in the source's order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def toastable(self) -> tuple[SourceColumn, ...]:
        """Columns whose unchanged value PostgreSQL may leave out of an update."""
        return tuple(column for column in self.columns if column.type.toastable)
