"""Delete files of a table only where they are given up: writers delete none.

Iceberg deletes all that it wrote for a commit which it is told has failed. Where something on the way to the catalog
has repeated a request that was done already, it is told so of a commit that was made, and the table would be without
its files. So the catalog of a session deletes none (see :mod:`pipelines.spark.session`): what a failed commit leaves
goes with the other orphans. See infra/decisions/059-writers-delete-nothing.md.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from pipelines.lake.catalog import Lake
from pipelines.lake.table import LakeTable
from pipelines.spark.session import CATALOG, DELETES


@contextmanager
def may_delete(session: SparkSession, table: LakeTable) -> Iterator[Any]:
    """Give Iceberg's own Table as it is now, which deletes the files that are given up within the block."""
    if not table.java.io().properties().containsKey(DELETES):
        # In a folder, where there is no such setting.
        table.refresh()
        yield table.java
        return
    lake = Lake(session)
    properties = lake.jvm.java.util.HashMap(lake.catalog.properties())
    properties.put(DELETES, "true")
    catalog = lake.jvm.org.apache.iceberg.CatalogUtil.loadCatalog(
        lake.catalog.getClass().getName(), CATALOG, properties, session.sparkContext._jsc.hadoopConfiguration()
    )
    try:
        yield catalog.loadTable(lake.identifier(table.namespace, table.name))
    finally:
        catalog.close()


def expire(session: SparkSession, table: LakeTable, before: int, retain: int) -> None:
    """Expire the snapshots from before a time, in milliseconds since 1970, and delete the files that only they had.

    The newest ``retain`` many stay.
    """
    with may_delete(session, table) as java:
        java.expireSnapshots().expireOlderThan(before).retainLast(retain).cleanExpiredFiles(True).commit()
    table.refresh()
