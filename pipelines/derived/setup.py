"""Make a derived table, and give it the columns of its query."""

import json
from collections.abc import Mapping
from typing import Any

from pyspark.errors import IllegalArgumentException

from pipelines.derived.compare import Computed
from pipelines.derived.outcome import DerivedOutcome
from pipelines.errors import StopPipeline, first_line
from pipelines.evolve.arrange import Arrangement
from pipelines.lake.catalog import Lake
from pipelines.lake.iceberg_schema import steps, union_of
from pipelines.lake.properties import COLUMN_ORIGINS, DERIVED, KEY_COLUMNS, KIND
from pipelines.lake.table import LakeTable
from pipelines.protection.columns import ProtectedColumns
from pipelines.schema.lake_types import printed
from pipelines.schema.plan import Change
from pipelines.spark.origins import Origins
from pipelines.specs.derived import DerivedSpec
from quality.contract import Contract


class DerivedSetup:
    """One derived table, as its query, its spec and its contract want it. Used by one thread at a time."""

    def __init__(self, spec: DerivedSpec, contract: Contract | None, protected: ProtectedColumns) -> None:
        self._spec, self._arrangement, self._protected = spec, Arrangement(spec.layout, contract), protected

    def ready(self, lake: Lake, table: LakeTable | None, made: Computed, outcome: DerivedOutcome) -> LakeTable:
        """Return the table, with a column for each that the query gives. Raises StopPipeline.

        A column that the query doesn't give any more stays until :meth:`tidy`: readers see it until the commit.
        """
        schema = lake.schema_of(made.rows)
        if table is None:
            properties = {KIND: DERIVED, KEY_COLUMNS: json.dumps(list(self._spec.key))}
            table = lake.create(*self._spec.name, schema, properties | self._protected.properties({}, made.types))
            outcome.changes.append("created")
        else:
            outcome.changes += self.evolve(table, schema)
        arranged = self._arrangement.apply(table)
        outcome.changes += arranged.changes
        outcome.layout_refused = arranged.refused
        return table

    def tell_origins(self, table: LakeTable, origins: Mapping[str, Origins]) -> None:
        """Write into the table which columns of its inputs its own are made of."""
        told = {name: [[*column, same] for column, same in sorted(found.items())] for name, found in origins.items()}
        text = json.dumps(told)
        if table.properties.get(COLUMN_ORIGINS) != text:
            table.set_properties({COLUMN_ORIGINS: text})

    def tidy(self, table: LakeTable, made: Computed, outcome: DerivedOutcome) -> None:
        """Drop the columns that the query doesn't give any more."""
        gone = [Change("drop", name) for name in table.column_types if name not in made.rows.columns]
        if gone:
            table.alter(steps(table, gone, ()), {})
            outcome.changes += [f"dropped {change.column}" for change in gone]

    def evolve(self, table: LakeTable, schema: dict[str, Any]) -> list[str]:
        """Give the table the columns and types of ``schema``, and return what has changed; none is taken from it."""
        before = {column["name"]: printed(column["type"]) for column in table.columns}
        wanted = {column["name"]: printed(column["type"]) for column in schema["fields"]}
        changed = {name: kind for name, kind in wanted.items() if before.get(name) != kind}
        if not changed:
            return []
        try:
            table.alter([union_of(table, schema)], {})
        except IllegalArgumentException as error:
            raise StopPipeline(
                f"{self._spec.table}: a column's type can't become what the query gives now: {first_line(error)} Give"
                " the column another name in sql, or drop the table: it is made again."
            ) from error
        return [f"{name} {kind}" for name, kind in changed.items()]
