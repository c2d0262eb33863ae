"""The partitions of rows that are written from Arrow, by Iceberg's own functions, which Spark's SQL has."""

import datetime
import decimal
import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.lake.data_files import Partition
from pipelines.lake.table import LakeTable
from pipelines.spark.session import CATALOG
from pipelines.specs.layout import TIMES, Term
from pipelines.sql import quote

_PREFIX = "__partition_"
# Types of which a value in Iceberg's JSON form is what Python has, or its text.
_PLAIN = ("int", "long", "string", "boolean", "date")


@dataclass(frozen=True)
class Partitioning:
    """How new rows of a table are partitioned: the spec's id, and its terms in order."""

    spec: int
    terms: tuple[Term, ...]

    @classmethod
    def of(cls, table: LakeTable) -> "Partitioning | None":
        """Return the table's; None: its partitions' values can't be told here."""
        spec = json.loads(table.jvm.org.apache.iceberg.PartitionSpecParser.toJson(table.java.spec()))
        columns = {column["id"]: column for column in table.columns}
        terms = []
        for field in spec["fields"]:
            column = columns.get(field["source-id"])
            term = None if column is None else Term.of(field["transform"], column["name"])
            if term is None or column is None or not _is_told(term, column["type"]):
                return None
            terms.append(term)
        return cls(int(spec["spec-id"]), tuple(terms))

    def with_values(self, rows: DataFrame) -> DataFrame:
        """Return rows with the values of their partition beside their columns."""
        return rows.withColumns({f"{_PREFIX}{i}": _value(term) for i, term in enumerate(self.terms)})

    def partitions(self, rows: pa.Table) -> list[Partition]:
        """Return each row's partition; the rows are of :meth:`with_values`."""
        if not self.terms:
            return [Partition(self.spec, ())] * rows.num_rows
        columns = [map(_json, rows[f"{_PREFIX}{i}"].to_pylist()) for i in range(len(self.terms))]
        return [Partition(self.spec, values) for values in zip(*columns, strict=True)]


def _is_told(term: Term, kind: Any) -> bool:
    if term.transform in TIMES:
        return True
    if term.transform == "bucket":
        # A uuid is a text in Spark, whose buckets are others.
        return bool(kind != "uuid")
    plain = isinstance(kind, str) and (kind in _PLAIN or kind.startswith("decimal"))
    return term.transform in ("identity", "truncate") and plain


def _value(term: Term) -> Column:
    column = quote(term.column)
    if term.transform == "identity":
        return F.col(column)
    function = f"{term.transform}s" if term.transform in TIMES else term.transform
    width = "" if term.width is None else f"{term.width:d}, "
    return F.expr(f"{CATALOG}.system.{function}({width}{column})")


def _json(value: Any) -> Any:
    if isinstance(value, datetime.date):
        return value.isoformat()
    return str(value) if isinstance(value, decimal.Decimal) else value
