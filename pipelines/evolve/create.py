"""Create a source table's mirror."""

import json
from collections.abc import Sequence

from pipelines.errors import StopPipeline
from pipelines.lake.catalog import Lake
from pipelines.lake.iceberg_schema import iceberg_schema
from pipelines.lake.names import lake_namespace
from pipelines.lake.properties import KEY_COLUMNS, SOURCE, SOURCE_SCHEMA, SOURCE_TABLE, TOPIC
from pipelines.lake.table import LakeTable
from pipelines.protection.columns import ProtectedColumns
from pipelines.schema.columns import TableShape
from pipelines.schema.technical import TECHNICAL


def create_table(
    lake: Lake, source: str, shape: TableShape, keys: Sequence[str], protected: ProtectedColumns | None = None
) -> LakeTable:
    """Create the mirror of a source table, with the columns of ``shape``, which has the source's types."""
    protected = protected or ProtectedColumns()
    clash = set(shape.column_names) & set(TECHNICAL)
    if clash:
        raise StopPipeline(
            f"{shape.topic} has the column {sorted(clash)[0]}, a name which the lake uses itself: rename it in the"
            " source, or leave the table out of the publication"
        )
    return lake.create(
        lake_namespace(source, shape.schema_name),
        shape.table_name,
        iceberg_schema(protected.shape(shape), keys),
        {
            SOURCE: source,
            SOURCE_SCHEMA: shape.schema_name,
            SOURCE_TABLE: shape.table_name,
            TOPIC: shape.topic,
            KEY_COLUMNS: json.dumps(list(keys)),
            **protected.properties({}, {column.name: column.type.iceberg for column in shape.columns}),
        },
    )
