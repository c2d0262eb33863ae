"""Windows of event time: which rows of an input are in them, by the row and the snapshot alone. Pure but for Spark.

Whether a row came in time is told by when it happened and when Kafka got it, never by when it was read. So the same
snapshots always give the same windows, however often the process was restarted on the way.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from pipelines.errors import StopPipeline
from pipelines.lake.table import LakeTable
from pipelines.specs.derived import DerivedSpec, Window
from pipelines.sql import quote

# Technical columns that say when a row came, of streams and of mirrored tables.
ARRIVED = ("_ingested_at", "_committed_at")


@dataclass(frozen=True)
class WindowRules:
    """A window's conditions in SQL, over the columns of its input. ``arrived``: that which says when a row came."""

    window: Window
    arrived: str

    @classmethod
    def of(cls, spec: DerivedSpec, inputs: Mapping[str, LakeTable]) -> "WindowRules | None":
        """Return those of a table that is made of these inputs; None: it has no windows. Raises StopPipeline."""
        window = spec.window
        if window is None:
            return None
        columns = inputs[window.input].column_types
        arrived = next((name for name in ARRIVED if name in columns), None)
        if arrived is None or window.time not in columns:
            lacking = window.time if window.time not in columns else " or ".join(ARRIVED)
            raise StopPipeline(f"window.input {window.input} has no column {lacking}: choose another in the spec")
        return cls(window, arrived)

    @property
    def _closes(self) -> str:
        """When the window of a row takes no more rows, in microseconds since 1970."""
        every, lateness = round(self.window.every * 1e6), round(self.window.lateness * 1e6)
        moment = f"unix_micros(CAST({quote(self.window.time)} AS TIMESTAMP))"
        return f"({moment} - pmod({moment}, {every}) + {every + lateness})"

    @property
    def _came(self) -> str:
        return f"unix_micros(CAST({quote(self.arrived)} AS TIMESTAMP))"

    @property
    def in_time(self) -> str:
        """The condition for rows that came in time."""
        return f"{self._came} <= {self._closes}"

    def counted(self, watermark: int | None) -> str:
        """Return the condition for rows that the query gets.

        ``watermark``: when the newest row came, in microseconds since 1970; windows are final by it.
        """
        if self.window.emit == "changes":
            return self.in_time
        return f"{self.in_time} AND {self._closes} <= {-1 if watermark is None else watermark}"

    def newly_final(self, before: int | None) -> str:
        """Return the condition for rows of windows that weren't final at the watermark ``before``."""
        return "true" if before is None else f"{self._closes} > {before}"

    def watermark(self, session: SparkSession, rows: str) -> int | None:
        """Return when the newest row of a view or table came, in microseconds since 1970; None: there is none."""
        newest = f"unix_micros(CAST(max({quote(self.arrived)}) AS TIMESTAMP))"
        found = session.sql(f"SELECT {newest} AS newest FROM {rows}").collect()[0].newest
        return None if found is None else int(found)

    def near(self, keys: pa.Table) -> str:
        """Return a condition that files can be left out by, which holds for all rows in the windows of ``keys``."""
        starts: Any = pc.min_max(keys[self.window.start].cast(pa.timestamp("us"))).as_py()
        first, last = (
            f"timestamp_micros({pa.scalar(starts[side], pa.timestamp('us')).value})" for side in ("min", "max")
        )
        column = quote(self.window.time)
        every = round(self.window.every * 1e6)
        return f"{column} >= {first} AND {column} < {last} + INTERVAL {every} MICROSECONDS"
