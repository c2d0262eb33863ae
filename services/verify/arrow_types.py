"""Arrow types for neutral values on their way to DuckDB. Pure."""

import pyarrow as pa

_ARROW = {
    "INTEGER": pa.int64(), "BIGINT": pa.int64(), "BOOLEAN": pa.bool_(), "FLOAT": pa.float32(), "DOUBLE": pa.float64(),
    "BLOB": pa.binary(), "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us"),
}  # fmt: skip


def arrow_type(duckdb_type: str) -> pa.DataType:
    """Return the Arrow type that holds neutral values on their way to a DuckDB type; text where DuckDB parses it."""
    if duckdb_type.endswith("[]"):
        return pa.list_(arrow_type(duckdb_type[:-2]))
    return _ARROW.get(duckdb_type, pa.string())
