"""Read what the table's files hold, whole: rows by field ids, and positions of deleted rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.lake.arrow_schema import as_fields, field_ids, one_array, stored_names
from pipelines.lake.storage import Storage


def read_rows(storage: Storage, location: str, fields: Sequence[pa.Field]) -> pa.Table:
    """Return a data file's rows, deleted ones too, in the columns and types that the table has now. Raises OSError."""
    with storage.open(location) as source:
        parquet = pq.ParquetFile(source)
        names = field_ids(parquet.schema_arrow)
        return as_fields(parquet.read(columns=stored_names(names, fields)), names, fields)


def read_places(
    storage: Storage, location: str, places: npt.NDArray[np.integer[Any]], fields: Sequence[pa.Field]
) -> pa.Table:
    """Return columns of a data file's rows at these places, in their order. Raises OSError.

    Only row groups are read that have one of them.
    """
    with storage.open(location) as source:
        parquet = pq.ParquetFile(source)
        sizes = [parquet.metadata.row_group(i).num_rows for i in range(parquet.num_row_groups)]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        groups = np.searchsorted(starts, places, side="right") - 1
        chosen = np.unique(groups)
        names = field_ids(parquet.schema_arrow)
        rows = parquet.read_row_groups([int(g) for g in chosen], columns=stored_names(names, fields))
    # Where each chosen group begins among what was read.
    begins = dict(zip(chosen, np.concatenate([[0], np.cumsum([sizes[g] for g in chosen])]), strict=False))
    at = np.array([begins[g] + place - starts[g] for g, place in zip(groups, places, strict=True)])
    return as_fields(rows.take(pa.array(at)), names, fields)


def read_positions(storage: Storage, location: str) -> dict[str, npt.NDArray[np.int64]]:
    """Return what a file of deletes says: data file to the places of its deleted rows. Raises OSError."""
    with storage.open(location) as source:
        rows = pq.read_table(source, columns=["file_path", "pos"])
    # Sorted by the file, so each has one run.
    paths = one_array(rows["file_path"].combine_chunks().dictionary_encode())
    codes, places = paths.indices.to_numpy(), rows["pos"].to_numpy()
    return {path: places[codes == code] for code, path in enumerate(paths.dictionary.to_pylist())}


def by_position(file: Mapping[str, Any]) -> bool:
    """Return whether a file of deletes, in Iceberg's JSON form, has positions, and can be read here."""
    return bool(file["content"] == "position-deletes" and file["file-format"] == "parquet")
