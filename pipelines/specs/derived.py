"""The spec of a derived table (``kind: derived``): what a query makes of other tables of the lake."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipelines.specs.duration import Duration
from pipelines.specs.events import LAKE_NAME
from pipelines.specs.layout import Layout
from pipelines.specs.upkeep import Alerts, Upkeep

_ALIAS = r"^[a-z][a-z0-9_]*$"
# What the query that tells which keys are affected calls the rows that have changed.
CHANGED = "changed"
# How a table is kept up to date. full: all of it is computed, and what differs is written. incremental: only rows of
# the keys that changed rows of the inputs affect. windowed: the same for windows of event time.
UpdateMode = Literal["full", "incremental", "windowed"]


class Input(BaseModel):
    """A table that a derived one is made of, as ``namespace.table`` of the lake.

    ``affects``: a query over ``changed`` (rows that came or went, as they are or were) and the other inputs, whose rows
    are keys of the derived table: no row of another key may come out differently. Without it, any change of this input
    has all of the table computed anew.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: Annotated[str, Field(pattern=LAKE_NAME)]
    affects: str | None = None


class Window(BaseModel):
    """Windows of event time: from each full ``every`` to the next.

    ``input``: whose rows they are of; ``time``: its column that says when a row happened, ``start``: the derived
    table's column that says when its window began. A row that came later than ``lateness`` after its window's end isn't
    the query's any more, and is counted. ``emit``: windows are written as they change, or once they are final.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: str
    time: str
    start: str
    every: Duration
    lateness: Duration
    emit: Literal["changes", "final"] = "changes"


class Announce(BaseModel):
    """A topic that gets a message for each new row, once. ``key``: the column that is the messages' key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    topic: str
    key: str


class DerivedSpec(BaseModel):
    """The spec of one derived table, from its file.

    ``table``: ``namespace.table`` of the lake. ``key``: columns that tell its rows apart. ``inputs``: what ``sql``
    calls them, to the tables. ``sql``: a query in Spark's SQL.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["derived"]
    table: Annotated[str, Field(pattern=LAKE_NAME)]
    key: Annotated[tuple[str, ...], Field(min_length=1)]
    update: UpdateMode
    inputs: Annotated[dict[Annotated[str, Field(pattern=_ALIAS)], Input], Field(min_length=1)]
    sql: str
    window: Window | None = None
    announce: Announce | None = None
    freshness_seconds: Annotated[float, Field(ge=1, le=3600)] | None = None
    layout: Layout = Layout()
    upkeep: Upkeep = Upkeep()
    alerts: Alerts = Alerts()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if CHANGED in self.inputs:
            raise ValueError(f"inputs.{CHANGED}: this is what changed rows are called; take another word")
        if self.table in {each.table for each in self.inputs.values()}:
            raise ValueError(f"inputs: {self.table} can't be made of itself")
        if (self.update == "windowed") != (self.window is not None):
            raise ValueError("update: windowed goes with window, and window with nothing else")
        if self.update == "full" and any(each.affects for each in self.inputs.values()):
            raise ValueError("update is full, so affects says nothing: leave it out, or choose incremental")
        if self.update == "incremental" and not any(each.affects for each in self.inputs.values()):
            raise ValueError("update is incremental, and no input says affects: add it, or choose full")
        if self.window is not None:
            self._check_window(self.window)
        return self

    def _check_window(self, window: Window) -> None:
        if window.input not in self.inputs:
            raise ValueError(f"window.input is {window.input}, which isn't among the inputs")
        if window.start not in self.key:
            raise ValueError(f"window.start is {window.start}, which isn't part of the key")
        if self.inputs[window.input].affects is None:
            raise ValueError(f"inputs.{window.input}.affects is missing: which windows do its rows change?")

    @property
    def name(self) -> tuple[str, str]:
        """Namespace and name of the table."""
        namespace, _, name = self.table.partition(".")
        return namespace, name
