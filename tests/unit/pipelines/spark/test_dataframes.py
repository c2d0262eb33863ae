"""DataFrames of what Python has hold all of it."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pipelines.spark.dataframes import from_arrow


@pytest.mark.parametrize("sizes", [(0, 0, 2), (0, 2), (1, 0, 0, 1), (2, 0), (0, 0), ()], ids=str)
def test_no_row_is_lost_behind_empty_batches(spark: SparkSession, sizes: tuple[int, ...]) -> None:
    parts = [pa.array(range(size), pa.int64()) for size in sizes]
    rows = pa.table({"id": pa.chunked_array(parts, pa.int64())})
    assert [row.id for row in from_arrow(spark, rows, "id long").collect()] == rows["id"].to_pylist()
