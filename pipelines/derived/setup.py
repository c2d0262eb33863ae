"""Make a derived table, and give it the columns of its query."""

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from pipelines.derived.outcome import DerivedOutcome
from pipelines.errors import StopPipeline
from pipelines.evolve.describe import Description
from pipelines.lake.catalog import Lake
from pipelines.lake.clock import check_clock
from pipelines.lake.iceberg_schema import union_of
from pipelines.lake.partitioning import LayoutError, apply_layout
from pipelines.lake.properties import COLUMN_ORIGINS, DERIVED, KEY_COLUMNS, KIND
from pipelines.lake.table import LakeTable
from pipelines.protection.columns import ProtectedColumns
from pipelines.spark.origins import Origins
from pipelines.specs.derived import DerivedSpec
from quality.contract import Contract


class DerivedSetup:
    """One derived table, as its query, its spec and its contract want it. Used by one thread at a time."""

    def __init__(self, spec: DerivedSpec, contract: Contract | None, protected: ProtectedColumns) -> None:
        self._spec, self._description, self._protected = spec, Description(contract), protected
        self._laid_out: tuple[str, int] | None = None

    def ready(
        self, lake: Lake, table: LakeTable | None, rows: DataFrame, types: Mapping[str, Any], outcome: DerivedOutcome
    ) -> LakeTable:
        """Return the table, with a column for each of ``rows``. Raises StopPipeline.

        ``types``: those that the columns have before they are protected.

        A column that the query doesn't give any more stays until :meth:`tidy`: readers see it until the commit.
        """
        schema = lake.schema_of(rows)
        if table is None:
            properties = {KIND: DERIVED, KEY_COLUMNS: json.dumps(list(self._spec.key))}
            table = lake.create(*self._spec.name, schema, properties | self._protected.properties({}, types))
            outcome.changes.append("created")
        elif _types(schema) != _types_of(table, schema):
            self._evolve(table, schema, outcome)
        check_clock(table)
        if self._laid_out != table.identity:
            try:
                outcome.changes += apply_layout(table, self._spec.layout)
            except LayoutError as error:
                outcome.layout_refused = str(error)
            self._laid_out = table.identity
        outcome.changes += [f"described {name}" for name in self._description.write(table)]
        return table

    def tell_origins(self, table: LakeTable, origins: Mapping[str, Origins]) -> None:
        """Write into the table which columns of its inputs its own are made of."""
        told = {name: [[*column, same] for column, same in sorted(found.items())] for name, found in origins.items()}
        text = json.dumps(told)
        if table.properties.get(COLUMN_ORIGINS) != text:
            table.set_properties({COLUMN_ORIGINS: text})

    def tidy(self, table: LakeTable, rows: DataFrame, outcome: DerivedOutcome) -> None:
        """Drop the columns that the query doesn't give any more."""
        gone = [name for name in table.column_types if name not in rows.columns]
        if gone:

            def drop(update: object) -> object:
                for name in gone:
                    update = update.deleteColumn(name)  # type: ignore[attr-defined]
                return update

            table.alter([drop], {})
            outcome.changes += [f"dropped {name}" for name in gone]

    def _evolve(self, table: LakeTable, schema: dict[str, object], outcome: DerivedOutcome) -> None:
        before = dict(table.column_types)
        try:
            table.alter([union_of(table, schema)], {})
        except Exception as error:
            raise StopPipeline(
                f"{self._spec.table}: a column's type can't become what the query gives now: {_first_line(error)} Give"
                " the column another name in sql, or drop the table: it is made again."
            ) from error
        after = table.column_types
        outcome.changes += [f"{name} {kind}" for name, kind in after.items() if before.get(name) != kind]


def _types(schema: dict[str, object]) -> dict[str, str]:
    fields = schema["fields"]
    assert isinstance(fields, list)
    return {field["name"]: _plain(field["type"]) for field in fields}


def _types_of(table: LakeTable, schema: dict[str, object]) -> dict[str, str]:
    """Return the types of a table's columns, as far as the schema names them."""
    named = _types(schema)
    return {c["name"]: _plain(c["type"]) for c in table.columns if c["name"] in named}


def _plain(kind: object) -> str:
    """Return a type in Iceberg's JSON form as a text, without the numbers of what is within it."""
    if isinstance(kind, dict):
        inner = {name: value for name, value in kind.items() if not name.endswith("id")}
        if "fields" in inner:
            inner["fields"] = [{"name": f["name"], "type": _plain(f["type"])} for f in kind["fields"]]
        return json.dumps({n: _plain(v) if isinstance(v, dict) else v for n, v in inner.items() if n != "required"})
    return str(kind)


def _first_line(error: BaseException) -> str:
    return f"{error}".strip().splitlines()[0]
