"""Refresh a dataset to what its table is now, in one commit that says of which snapshot it is.

A row has the position of the record that wrote it, and another one whenever it changes. So what the dataset lacks are
the positions that it hasn't got, and what it has too much are those that the table hasn't got any more, whether rows
were changed, deleted, or aren't to be shown any longer. That takes no key, and the same again changes nothing. Rows of
derived tables have no position, and are told apart by all that is shown of them.
"""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from pipelines.evolve.describe import comment
from pipelines.lake.catalog import Lake
from pipelines.lake.commit import commit
from pipelines.lake.file_deletion import expire
from pipelines.lake.properties import DERIVED, KIND, PUBLISHED_DEFINITION, PUBLISHED_SNAPSHOT, TABLE_PROPERTIES
from pipelines.lake.table import LakeTable
from pipelines.ledger.entries import OFFSETS
from pipelines.protection.functions import Vault
from pipelines.publish.dataset import Dataset
from pipelines.spark.session import CATALOG
from pipelines.sql import literal, quote, quote_path

# Files of a dataset beyond which it is rewritten; how long its history is kept then.
MOST_FILES, MOST_DELETES, HISTORY_KEPT = 32, 16, timedelta(days=1)


@dataclass(frozen=True)
class RefreshResult:
    """The result of a refresh.

    ``anew``: the dataset was made again: its definition has changed, or values without a record.
    """

    snapshot: int
    anew: bool
    seconds: float


@dataclass
class Refresher:
    """Keeps datasets up to date. Used by one thread at a time.

    ``root``: below which they are; None: where the catalog has its tables.
    """

    spark: SparkSession
    root: str | None
    vault: Vault | None
    _lake: Lake = field(init=False)

    def __post_init__(self) -> None:
        self._lake = Lake(self.spark)

    def refresh(self, dataset: Dataset) -> RefreshResult | None:
        """Bring a dataset up to date; None: it was, or the lake hasn't got its table yet. Raises StopPipeline."""
        began = time.monotonic()
        table, has = self._lake.table(*dataset.table), self._lake.table(*dataset.name)
        if table is None or table.snapshot_id is None:
            return None
        definition = dataset.definition(table, self.vault)
        if has is not None and has.properties.get(PUBLISHED_DEFINITION) == definition:
            reached = published_snapshot(has)
            if reached == table.snapshot_id:
                return None
            if reached is not None and _only_changes(table, reached):
                self._merge(dataset, table, has)
                self._tidy(has)
                return RefreshResult(table.snapshot_id, False, time.monotonic() - began)
        self._create(dataset, table, definition)
        return RefreshResult(table.snapshot_id, True, time.monotonic() - began)

    def _create(self, dataset: Dataset, table: LakeTable, definition: str) -> None:
        """Make the dataset anew, in one commit, and leave nothing of what it was.

        Readers have it as it was until the commit.
        """
        namespace, name = dataset.name
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quote_path((CATALOG, namespace))}")
        table_properties = {**TABLE_PROPERTIES, **dataset.properties(definition, table)}
        properties = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in table_properties.items())
        location = "" if self.root is None else f"LOCATION {literal(dataset.location(self.root))} "
        commit(
            self.spark,
            f"CREATE OR REPLACE TABLE {quote_path((CATALOG, namespace, name))} USING iceberg {location}"
            f"TBLPROPERTIES ({properties}) AS SELECT * FROM {self._view(dataset, table)}",
            _summary(table),
        )
        made = self._lake.table(namespace, name)
        assert made is not None
        made.alter([partial(comment, comments=dataset.comments(table))], {})
        expire(self.spark, made, _ago(timedelta()), 1)

    def _merge(self, dataset: Dataset, table: LakeTable, has: LakeTable) -> None:
        columns = [quote(column) for column in (*dataset.columns(table), *dataset.technical(table))]
        same = " AND ".join(f"t.{quote(column)} <=> c.{quote(column)}" for column in dataset.identity(table))
        values = ", ".join(f"c.{column}" for column in columns)
        statement = (
            f"MERGE INTO {has.sql_name} AS t USING {self._view(dataset, table)} AS c ON {same}\n"
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(columns)}) VALUES ({values})\n"
            "WHEN NOT MATCHED BY SOURCE THEN DELETE"
        )
        commit(self.spark, statement, _summary(table))

    def _view(self, dataset: Dataset, table: LakeTable) -> str:
        assert table.snapshot_id is not None
        at = f"SELECT * FROM {quote_path((CATALOG, table.namespace, table.name))} VERSION AS OF {table.snapshot_id:d}"
        shown: DataFrame = dataset.rows(self.spark.sql(at), table, self.vault)
        shown.createOrReplaceTempView("shown")
        return "shown"

    def _tidy(self, has: LakeTable) -> None:
        has.refresh()
        files, deletes = (int(has.summary.get(f"total-{kind}-files", 0)) for kind in ("data", "delete"))
        if files <= MOST_FILES and deletes <= MOST_DELETES:
            return
        name = quote_path((CATALOG, has.namespace, has.name))
        self.spark.sql(
            f"CALL {CATALOG}.system.rewrite_data_files(table => '{name}',"
            " options => map('delete-file-threshold', '1', 'min-input-files', '2'))"
        )
        expire(self.spark, has, _ago(HISTORY_KEPT), 2)


def published_snapshot(has: LakeTable) -> int | None:
    """Return the snapshot of its table that a dataset is of; None: it doesn't say."""
    return next(
        (int(summary[PUBLISHED_SNAPSHOT]) for summary in has.summaries() if PUBLISHED_SNAPSHOT in summary), None
    )


def _ago(age: timedelta) -> int:
    """Return the time so long ago, in milliseconds since 1970."""
    return round((datetime.now(UTC) - age).timestamp() * 1000)


def _summary(table: LakeTable) -> dict[str, str]:
    return {PUBLISHED_SNAPSHOT: str(table.snapshot_id)}


def _only_changes(table: LakeTable, since: int) -> bool:
    """Return whether all that has happened to a table since a snapshot can be brought to a dataset by positions.

    Each change gives changed rows another position, or changes none: merged changes, and the same rows in other files.
    What fills a new column of older rows doesn't. Rows of derived tables are told apart by their values.
    """
    operations = table.operations_since(since)
    if operations is None or table.properties.get(KIND) == DERIVED:
        return operations is not None
    return all(OFFSETS in told or operation == "replace" for operation, told in operations)
