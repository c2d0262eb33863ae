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


def keep(frame: DataFrame, few: bool = False) -> DataFrame:
    """``frame``, to be computed once, until :func:`release`. Of ``few`` rows nothing but these is kept, at once: all
    that they are asked for is planned without what they were made of.
    """
    # What is observed on the way is told only of a plan that was made from another: of a view by itself it isn't.
    return frame.coalesce(1).localCheckpoint() if few else frame.persist()


def release(frame: DataFrame) -> None:
    """Let go of what :func:`keep` has kept."""
    if frame.is_cached:
        frame.unpersist()
    else:
        frame._jdf.queryExecution().analyzed().rdd().unpersist(False)


@contextmanager
def persisted(frame: DataFrame, few: bool = False) -> Iterator[DataFrame]:
    """``frame``, kept for the block."""
    frame = keep(frame, few)
    try:
        yield frame
    finally:
        release(frame)


@contextmanager
def viewed(frame: DataFrame, topic: str) -> Iterator[str]:
    """``frame`` as a view which SQL of any session can name; its name. One view of a topic at a time."""
    name = "changes_" + "".join(c if c.islower() or c.isdigit() else f"_{ord(c):x}_" for c in topic)
    frame.createOrReplaceGlobalTempView(name)
    try:
        yield f"global_temp.`{name}`"
    finally:
        frame.sparkSession.catalog.dropGlobalTempView(name)
