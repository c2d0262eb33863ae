"""From a table's raw records to its folded changes by a plan that is made once, with what must be known of them.

The steps are those of a large batch (decode, project, admit, enforce, protect, fold), one after the other without
anything in between that is looked at. So a plan is for records of which nothing has to be looked at: whatever isn't
plain is counted, and who reads the facts has the batch brought in the other way.
"""

import datetime
from collections.abc import Iterable, Set
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pipelines.kafka.wire import id_bytes, schema_id
from pipelines.ledger.entries import Counts
from pipelines.merge.fold import fold
from pipelines.merge.moved import EVENTS, origin_columns
from pipelines.schema.columns import TableShape
from pipelines.sources.base.change_rows import CREATES, FOUND_BROKEN, OPERATIONS, TRUNCATE, any_unavailable

# What the leaf's records have beside what is decoded.
CARRIED = ("key", "tombstones")
_ODD, _INCOMPLETE, _TOMBSTONES = "__odd", "__incomplete", "__tombstones"
_OLDEST, _PLACES, _HALVES, _KEY = "__oldest", "__broken", "__halves", "__key"


@dataclass(frozen=True)
class Facts:
    """The facts of a run.

    ``odd``: records that a plan isn't for, or whose other half isn't among them; ``events``: those with a value,
    ``changes`` of different keys; ``incomplete``: that lack an unchanged value; ``broken``: promise of the contract to
    how many rows broke it; ``oldest``: when the oldest change was committed, in seconds since 1970.
    """

    odd: int
    incomplete: int
    events: int
    changes: int
    tombstones: int
    oldest: float | None
    broken: dict[str, int]

    @property
    def counts(self) -> Counts:
        """What becomes of the records, none of which is odd."""
        return Counts(merged=self.changes, superseded=self.events - self.changes, tombstones=self.tombstones)


def fold_with_facts(
    rows: DataFrame, shape: TableShape, keys: tuple[str, ...], key_schemas: Iterable[int], has_unavailable: bool
) -> DataFrame:
    """Return the folded changes of ``rows``, with the facts of each key's events beside them.

    ``rows``: change rows with the columns ``CARRIED``. ``key_schemas``: the schemas that keys may have.
    ``has_unavailable``: as for :func:`pipelines.merge.fold.fold`; without it what is folded is right where the facts
    say that no event is incomplete.
    """
    known = [F.lit(id_bytes(identifier)) for identifier in sorted(key_schemas)]
    keyed = F.coalesce(schema_id("key").isin(known), F.lit(False))
    arriving = F.col("op").isin(*CREATES) & F.col("old_key").isNotNull()
    odd = (
        F.col("problem").isNotNull() | ~F.col("op").isin(*OPERATIONS) | (F.col("op") == TRUNCATE)
        | F.col("replayed") | ~keyed
    )  # fmt: skip
    # Both halves of a change of a key are written at one position: where all are there, nothing is left of these.
    halves = F.bit_xor(F.when(F.col("leaving") | arriving, F.xxhash64("log_position")))
    facts = [
        *(origin_columns(rows, keys) if has_unavailable else [(EVENTS, F.count("*"))]),
        (_ODD, F.count_if(F.coalesce(odd, F.lit(True)))),
        (_INCOMPLETE, F.count_if(any_unavailable(shape))),
        (_TOMBSTONES, F.sum("tombstones")),
        (_OLDEST, F.min("committed_at")),
        (_HALVES, halves),
        (_KEY, F.max("key")),
    ]
    if FOUND_BROKEN in rows.columns:
        kind = rows.schema[FOUND_BROKEN].dataType
        assert isinstance(kind, StructType)
        counted = [F.count_if(F.col(FOUND_BROKEN).getField(name)).alias(name) for name in kind.names]
        facts.append((_PLACES, F.struct(*counted)))
    return fold(rows, shape, keys, has_unavailable, more=facts)


def facts_of(rows: pa.Table, waiting: Set[bytes]) -> Facts:
    """Return the facts of what a run has given. ``waiting``: keys behind whose letters events wait."""

    def total(name: str) -> int:
        return int(pc.sum(rows[name]).as_py() or 0)

    tombstones = total(_TOMBSTONES)
    if tombstones < 0:
        # The one record stands for none that has a value (see pipelines.kafka.worker_records).
        return Facts(odd=0, incomplete=0, events=0, changes=0, tombstones=-1 - tombstones, oldest=None, broken={})
    broken = {}
    if _PLACES in rows.column_names:
        column = rows[_PLACES].combine_chunks()
        broken = {f.name: int(pc.sum(pc.struct_field(column, f.name)).as_py() or 0) for f in column.type}
    oldest = pc.min(rows[_OLDEST]).as_py()
    halved = int(np.bitwise_xor.reduce(pc.fill_null(rows[_HALVES], 0).to_numpy())) != 0
    waits = bool(waiting) and not waiting.isdisjoint(rows[_KEY].to_pylist())
    return Facts(
        odd=total(_ODD) + halved + waits, incomplete=total(_INCOMPLETE), events=total(EVENTS), changes=rows.num_rows,
        tombstones=tombstones, oldest=oldest.timestamp() if isinstance(oldest, datetime.datetime) else None,
        broken={name: count for name, count in broken.items() if count},
    )  # fmt: skip
