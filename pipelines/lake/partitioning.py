"""Partition an Iceberg table as its spec's layout says, and order its rewritten files.

See :mod:`pipelines.specs.layout`. The order isn't Iceberg's own sort order of the table: that is kept in its metadata
for ever, and once a column is dropped that ever was part of it, every write fails (Iceberg 1.11,
SerializableTable.sortOrders).
"""

from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JJavaError

from pipelines.errors import PipelineError, one_line
from pipelines.lake.table import LakeTable
from pipelines.specs.layout import Layout, Term


class LayoutError(PipelineError):
    """A table can't have the layout that its spec asks for. The message says why."""


def partitioning(table: LakeTable) -> tuple[str, ...]:
    """Return the terms by which new files of a table are partitioned."""
    schema = table.java.schema()
    fields = [(str(f.transform().toString()), schema.findColumnName(f.sourceId())) for f in table.java.spec().fields()]
    return tuple(str(Term.of(transform, name)) for transform, name in fields if transform != "void")


def apply_layout(table: LakeTable, layout: Layout) -> list[str]:
    """Give the table ``layout``, and return what was changed.

    Raises LayoutError; nothing is changed then.
    """
    unknown = [str(term) for term in layout.sort_terms if term.column not in table.column_types]
    if unknown:
        raise LayoutError(f"{table.sql_name} can't be sorted by {', '.join(unknown)}: it has no such column")
    has = partitioning(table)
    if layout.partition is None or sorted(layout.partition) == sorted(has):
        return []
    try:
        _repartition(table, has, layout.partition)
    except Py4JJavaError as error:
        raise LayoutError(f"{table.sql_name} can't be partitioned as its spec says: {one_line(error)}") from None
    return [f"partition by {', '.join(layout.partition) or 'nothing'}"]


def fixed_columns(table: LakeTable) -> frozenset[str]:
    """Return the columns that the table is or once was partitioned by: without one Iceberg 1.11 can't write to it."""
    specs = table.java.specs()
    if specs.size() == 1 and not table.partitioned:
        return frozenset()
    schema = table.java.schema()
    sources = {f.sourceId() for spec in specs.values() if spec.isPartitioned() for f in spec.fields()}
    return frozenset(name for source in sources if (name := schema.findColumnName(source)) is not None)


def sort_order(table: LakeTable, terms: Sequence[Term]) -> Any:
    """Return Iceberg's SortOrder by those of ``terms`` whose columns the table has."""
    iceberg = table.jvm.org.apache.iceberg
    order, nulls_first = iceberg.SortOrder.builderFor(table.java.schema()), iceberg.NullOrder.NULLS_FIRST
    for term in terms:
        if term.column in table.column_types:
            order = order.asc(_expression(table, term), nulls_first)
    return order.build()


def _repartition(table: LakeTable, has: Sequence[str], wanted: Sequence[str]) -> None:
    update = table.java.updateSpec()
    for text in [text for text in has if text not in wanted]:
        update = update.removeField(_expression(table, Term.parse(text)))
    for text in [text for text in wanted if text not in has]:
        update = update.addField(_expression(table, Term.parse(text)))
    update.commit()
    table.java.refresh()


def _expression(table: LakeTable, term: Term) -> Any:
    """Return the term as Iceberg's own."""
    make = table.jvm.org.apache.iceberg.expressions.Expressions
    if term.transform == "identity":
        return make.ref(term.column)
    return getattr(make, term.transform)(term.column, *(() if term.width is None else (term.width,)))
