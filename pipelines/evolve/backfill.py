"""Write the defaults that older rows show in a column which was added later."""

import json

from pyspark.sql import SparkSession

from pipelines.failpoints import failpoint
from pipelines.lake.commit import commit
from pipelines.lake.properties import BACKFILL
from pipelines.lake.table import LakeTable
from pipelines.sql import quote


def backfill(session: SparkSession, table: LakeTable) -> None:
    """Write the values that older rows show in columns which were added with a default, if that is still to be done.

    Repeatable: only rows from before the column are touched.
    """
    if BACKFILL not in table.properties:
        return
    failpoint("before-backfill")
    for column, late in json.loads(table.properties[BACKFILL]).items():
        if late["value"] is not None and column in table.column_types:
            name = quote(column)
            statement = f"UPDATE {table.sql_name} SET {name} = {late['value']} WHERE _lsn < {late['before_lsn']:d}"
            commit(session, f"{statement} AND {name} IS NULL", {"lakehouse.backfill": column})
    failpoint("after-backfill")
    table.set_properties({}, remove=[BACKFILL])
