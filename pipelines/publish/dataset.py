"""A dataset: one role's part of one table, and how it is told that the definition has changed."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipelines.errors import StopPipeline
from pipelines.evolve.describe import comment_of
from pipelines.lake.properties import PUBLISHED_DEFINITION, PUBLISHED_OF, PUBLISHED_PROTECTED, PUBLISHED_ROLE, PURGED
from pipelines.lake.table import LakeTable
from pipelines.protection.columns import KEYED
from pipelines.protection.crypto import place_of
from pipelines.protection.functions import Vault, has_text, mask, text_of
from pipelines.publish.shown import Shown
from pipelines.schema.technical import RECORD
from pipelines.sql import quote

# Of the record that wrote a row there is one row at most, in the table and here.
TECHNICAL = (*RECORD, "_committed_at", "_ingested_at")
# No record wrote a row that was computed. Of those that look the same to the role, which one it is.
NTH = "_nth"


class Dataset(Shown):
    """What Spark makes of a role's part of a table."""

    def columns(self, table: LakeTable) -> list[str]:
        """Return the columns that the role is shown, as far as the table has them."""
        return [name for name in self.audience.columns if name in table.column_types]

    def definition(self, table: LakeTable, vault: Vault | None) -> str:
        """Return a digest that is another one for everything that makes rows that are there already look otherwise."""
        keyed = any(how in KEYED for how in self.audience.columns.values())
        if keyed and vault is None:
            raise StopPipeline(
                f"{'.'.join(self.name)} has columns that take a key, and there is none: set PROTECTION_KEY in .env"
            )
        has = table.column_types
        parts = [
            table.uuid, [[name, has.get(name), how] for name, how in self.audience.columns.items()],
            self.audience.rows, vault.keys.fingerprint if keyed and vault else None, table.properties.get(PURGED),
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def comments(self, table: LakeTable) -> dict[str, str | None]:
        """Return column to what is said of it."""
        return {
            name: comment_of(column, self.audience.columns[name])
            for name in self.columns(table) if (column := self.contract.column(name)) is not None
        }  # fmt: skip

    def properties(self, definition: str, table: LakeTable) -> dict[str, str]:
        """Return the properties of the dataset's table."""
        done: Mapping[str, Any] = {name: how for name, how in self.audience.columns.items() if how}
        of = ".".join(self.table)
        return {
            PUBLISHED_OF: of, PUBLISHED_ROLE: self.audience.role, PUBLISHED_DEFINITION: definition,
            PUBLISHED_PROTECTED: json.dumps(done),
            "comment": f"What {self.audience.role} is shown of {of}.", PURGED: table.properties.get(PURGED, ""),
        }  # fmt: skip

    def technical(self, table: LakeTable) -> list[str]:
        """Return the columns that the dataset has beside those that are shown."""
        return [name for name in TECHNICAL if name in table.column_types] if _by_record(table) else [NTH]

    def identity(self, table: LakeTable) -> list[str]:
        """Return the columns that tell one row from all others; a row that changes has others in them."""
        return list(RECORD) if _by_record(table) else [*self.columns(table), NTH]

    def rows(self, frame: DataFrame, table: LakeTable, vault: Vault | None) -> DataFrame:
        """Return rows of the table as the role is shown them."""
        shown = frame if self.audience.rows is None else frame.where(F.expr(f"({self.audience.rows}) IS TRUE"))
        if _by_record(table):
            return shown.select(*self._select(table, vault), *self.technical(table))
        found = shown.select(*self._select(table, vault))
        same = [F.col(quote(name)) for name in found.columns]
        return found.withColumn(NTH, F.row_number().over(Window.partitionBy(*same).orderBy(same[0])))

    def _select(self, table: LakeTable, vault: Vault | None) -> Iterator[Column]:
        has = table.column_types
        for name in self.columns(table):
            how, value = self.audience.columns[name], F.col(quote(name))
            if how is None:
                yield value
                continue
            if not has_text(has[name]):
                raise StopPipeline(
                    f"{'.'.join(self.name)}: {name} is {has[name]}, which has no text that could be protected: drop it"
                )
            text, place = text_of(value, has[name]), place_of(self.contract.table, name)
            # Without keys there are only masks.
            yield (mask(text) if vault is None else vault.protected(text, how, place)).alias(name)


def _by_record(table: LakeTable) -> bool:
    """Return whether each row of a table says which record wrote it."""
    return all(name in table.column_types for name in RECORD)
