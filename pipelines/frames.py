"""Frames: what a DataFrame holds on to for as long as a block runs."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame


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
