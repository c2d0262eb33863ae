"""Find the values that a change of a row's key left out, where the row under the old key has them.

That is so where nothing else has become of the old key in the batch: its row in the table is what the row was when it
left. Whatever else there is to be inherited is left to :mod:`pipelines.merge.inherit`.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pipelines.lake.arrow_schema import as_rows
from pipelines.lake.file_rows import FoundRow
from pipelines.merge.fold import LOST, OP
from pipelines.sources.base.change_rows import CREATES, DELETE

FROM, EVENTS = "__from", "__events"


def origin_columns(changes: DataFrame, keys: Sequence[str]) -> list[tuple[str, Column]]:
    """Return the aggregates of a key's events that tell which key its row had before, and how many events there are.

    ``changes``: as for :func:`pipelines.merge.fold.fold`.
    """
    row_type = changes.schema["row"].dataType
    assert isinstance(row_type, StructType)
    born = F.when(F.col("op").isin(*CREATES), F.col("offset"))
    was = F.from_json(F.max_by("old_key", born), StructType([row_type[key] for key in keys]))
    return [(FROM, was), (EVENTS, F.count("*"))]


def origins(
    rows: pa.Table, keys: pa.Table, found: Mapping[int, FoundRow], outdated: npt.NDArray[np.bool_]
) -> dict[int, FoundRow] | None:
    """Return, of each change that has lost a value, the table's row that has it. None: that of one isn't known.

    ``rows``: folded changes, with what :func:`origin_columns` tells; ``keys``: their keys, in the table's types.
    ``found``: change to the table's row of that key; ``outdated``: which changes are older than that.
    """
    lost = np.flatnonzero(pc.fill_null(rows[LOST], False).to_numpy(zero_copy_only=False))
    if not len(lost):
        return {}
    was = rows[FROM].combine_chunks()
    before = as_rows(pa.table({name: pc.struct_field(was, name) for name in keys.column_names}), list(keys.schema))
    at = {key: change for change, key in enumerate(_tuples(keys))}
    left, operations, events = _tuples(before), rows[OP].to_pylist(), rows[EVENTS].to_pylist()
    origin = {}
    for change in map(int, lost):
        old = at.get(left[change])
        if old is None or old not in found or outdated[old] or (operations[old], events[old]) != (DELETE, 1):
            return None
        origin[change] = found[old]
    return origin


def _tuples(rows: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
