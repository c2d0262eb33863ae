"""How a table lies, as its metadata and its spec say."""

from pyiceberg.table import Table

from pipelines.specs.layout import Layout, Term
from pipelines.specs.load import load_specs
from services.operations.maintain.needs import source_of


def layout_of(table: Table) -> Layout:
    """Return how new files of a table are partitioned, and by what its rewritten files are sorted."""
    names = table.schema()
    terms = tuple(
        str(Term.of(str(field.transform), names.find_column_name(field.source_id) or f"column {field.source_id}"))
        for field in table.spec().fields
        if str(field.transform) != "void"
    )
    source = source_of(table)
    return Layout(partition=terms, sort=() if source is None else load_specs().layout(*source).sort or ())
