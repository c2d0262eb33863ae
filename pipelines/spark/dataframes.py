"""Make DataFrames of what Python has, and keep them, or their views, for a block."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.serializers import CPickleSerializer
from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

# What was observed comes by Spark's listeners, a moment after the action.
PATIENCE_SECONDS = 30
OBSERVED = "observed"


def from_rows(spark: SparkSession, rows: Iterable[Sequence[Any]], types: str) -> DataFrame:
    """Return a DataFrame of ``rows`` with the columns that ``types`` names, in SQL.

    They come by Arrow: unlike for lists, Spark starts no Python processes for them, which take a second and 100 MB.
    """
    schema = to_arrow_schema(cast(StructType, StructType.fromDDL(types)))
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return from_arrow(spark, pa.table(arrays, schema=schema), types)


def from_arrow(spark: SparkSession, rows: pa.Table, types: StructType | str | None = None) -> DataFrame:
    """Return a DataFrame of all of ``rows``, in the columns ``types`` or their own.

    Spark reads no further than two empty batches that follow each other, which filters and joins of tables leave.
    """
    whole = rows.combine_chunks()
    return spark.createDataFrame(whole) if types is None else spark.createDataFrame(whole, types)


def keep(frame: DataFrame, few: bool = False) -> DataFrame:
    """Have ``frame`` computed once, and kept until :func:`release`.

    Of ``few`` rows nothing but these is kept, at once: all that they are asked for is planned without what they were
    made of.
    """
    # What is observed on the way is told only of a plan that was made from another: of a view by itself it isn't.
    return frame.coalesce(1).localCheckpoint() if few else frame.persist()


def release(frame: DataFrame) -> None:
    """Release what :func:`keep` has kept."""
    if frame.is_cached:
        frame.unpersist()
    else:
        frame._jdf.queryExecution().analyzed().rdd().unpersist(False)


def keep_with_stats(frame: DataFrame, aggregates: Sequence[Column], few: bool) -> tuple[DataFrame, Row]:
    """Return ``frame`` as of :func:`keep`, and the ``aggregates`` of its rows.

    Of ``few`` rows the job that keeps them computes the aggregates as well.
    """
    if not few:
        stored = keep(frame)
        return stored, stored.agg(*aggregates).collect()[0]
    observed, result = observe(frame, aggregates)
    stored = keep(observed, few)
    return stored, result() or stored.agg(*aggregates).collect()[0]


def observe(frame: DataFrame, aggregates: Sequence[Column]) -> tuple[DataFrame, Callable[[], Row | None]]:
    """Return ``frame``, and what to call for the ``aggregates`` of all its rows, once an action has gone over them.

    It returns None where Spark doesn't tell.
    """
    observation = Observation()
    # As one value, for a row of several comes with Java's objects in it.
    return frame.observe(observation, F.struct(*aggregates).alias(OBSERVED)), lambda: _observed(frame, observation)


def _observed(frame: DataFrame, observation: Observation) -> Row | None:
    jvm = frame.sparkSession.sparkContext._jvm
    assert jvm is not None
    assert observation._jo is not None
    try:
        # PySpark's own way waits for ever.
        patience = jvm.scala.concurrent.duration.Duration.create(PATIENCE_SECONDS, "s")
        jvm.scala.concurrent.Await.ready(observation._jo.future(), patience)
    except Py4JJavaError:
        return None
    pickled = jvm.org.apache.spark.sql.api.python.PythonSQLUtils.toPyRow(observation.get[OBSERVED])
    row: Row = CPickleSerializer().loads(pickled)  # type: ignore[no-untyped-call]
    return row


def columns_read(frame: DataFrame) -> frozenset[str]:
    """Return the names of all columns that ``frame`` is made of, of whatever table."""
    leaves = frame._jdf.queryExecution().optimizedPlan().collectLeaves()
    outputs = [leaves.apply(index).output() for index in range(leaves.size())]
    return frozenset(str(output.apply(index).name()) for output in outputs for index in range(output.size()))


@contextmanager
def persisted(frame: DataFrame, few: bool = False) -> Iterator[DataFrame]:
    """Keep ``frame`` for the block."""
    frame = keep(frame, few)
    try:
        yield frame
    finally:
        release(frame)


@contextmanager
def as_view(frame: DataFrame, topic: str) -> Iterator[str]:
    """Make ``frame`` a view which SQL of any session can name, and give its name. One view of a topic at a time."""
    name = "changes_" + "".join(c if c.islower() or c.isdigit() else f"_{ord(c):x}_" for c in topic)
    frame.createOrReplaceGlobalTempView(name)
    try:
        yield f"global_temp.`{name}`"
    finally:
        frame.sparkSession.catalog.dropGlobalTempView(name)
