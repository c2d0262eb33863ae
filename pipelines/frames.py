"""Frames: DataFrames of what Python has, and what a DataFrame holds on to for as long as a block runs."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def given(spark: SparkSession, rows: Iterable[Sequence[Any]], types: str) -> DataFrame:
    """``rows`` with the columns that ``types`` names, in SQL. They come by Arrow: unlike for lists, Spark starts no
    Python processes for them, which take a second and 100 MB.
    """
    schema = to_arrow_schema(cast(StructType, StructType.fromDDL(types)))
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return spark.createDataFrame(pa.table(arrays, schema=schema), types)


@contextmanager
def persisted(frame: DataFrame) -> Iterator[DataFrame]:
    """``frame``, kept once it has been computed."""
    frame = frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()


@contextmanager
def viewed(frame: DataFrame, topic: str) -> Iterator[str]:
    """``frame`` as a view which SQL of any session can name; its name. One view of a topic at a time."""
    name = "changes_" + "".join(c if c.islower() or c.isdigit() else f"_{ord(c):x}_" for c in topic)
    frame.createOrReplaceGlobalTempView(name)
    try:
        yield f"global_temp.`{name}`"
    finally:
        frame.sparkSession.catalog.dropGlobalTempView(name)
