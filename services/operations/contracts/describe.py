"""A table as the source describes it."""

from pipelines.sources.base.database import TableReader
from pipelines.sources.base.tables import DescribedTable
from services.stack.errors import LakehouseError


class NoSuchTable(LakehouseError):
    """The source hasn't got the table."""


def describe(source: TableReader, schema: str, name: str) -> DescribedTable:
    """Return the table as it is now. Raises NoSuchTable."""
    found = source.describe(schema, name)
    if found is None:
        raise NoSuchTable(f"the source has no table {schema}.{name}. `lakehouse table list` names those that it has.")
    return found
