"""Hash keys of any type into 64 bits, so that many can be kept and looked up in little memory. Pure.

Equal keys have equal hashes: of a number 0.0 is -0.0, and each NaN any other, as in Spark's SQL. What has the same hash
isn't always equal; whoever looks up compares.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes = npt.NDArray[np.uint64]

# Odd constants with bits well spread (of SplitMix64).
_GOLDEN, _MIX, _FINAL = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_WORD = 8
# So many texts are laid out side by side at a time.
_AT_ONCE = 1 << 16


def hash_keys(columns: Sequence[pa.Array]) -> Hashes:
    """Return a hash for each row of the columns, of which none has a null."""
    hashes = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        hashes = _mixed(hashes * _GOLDEN ^ _column(column))
    return hashes


def _column(column: pa.Array) -> Hashes:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = column.type
    if pa.types.is_floating(kind):
        numbers: npt.NDArray[np.float64] = column.cast(pa.float64()).to_numpy(zero_copy_only=False).copy()
        numbers[numbers == 0] = 0.0
        numbers[np.isnan(numbers)] = np.nan
        return numbers.view(np.uint64)
    if pa.types.is_primitive(kind) and not pa.types.is_decimal(kind):
        width = {1: pa.uint8(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width]
        whole = column.cast(width) if kind.bit_width == 1 else column.view(width)
        values: npt.NDArray[np.int64] = whole.to_numpy(zero_copy_only=False).astype(np.int64)
        return values.view(np.uint64)
    # Decimals by their digits: of one scale each, equal numbers have the same.
    texts = column.cast(pa.string()) if pa.types.is_decimal(kind) else column
    return _texts(texts.cast(pa.binary()))


def _texts(column: pa.Array) -> Hashes:
    parts = [_laid_out(column.slice(start, _AT_ONCE)) for start in range(0, len(column), _AT_ONCE)]
    return np.concatenate(parts) if parts else np.zeros(0, np.uint64)


def _laid_out(column: pa.Array) -> Hashes:
    """Hash texts word by word, all at the same time; a word that a text doesn't reach isn't part of it."""
    lengths = pc.binary_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
    words = max(1, -(-int(lengths.max(initial=0)) // _WORD))
    padded = np.array(column.to_pylist(), dtype=f"S{words * _WORD}").view(np.uint64).reshape(len(column), words)
    hashes = _mixed(lengths.astype(np.uint64))
    for word in range(words):
        reached = lengths > word * _WORD
        hashes = np.where(reached, _mixed(hashes * _GOLDEN ^ padded[:, word]), hashes)
    return hashes


def _mixed(values: Hashes) -> Hashes:
    values = (values ^ values >> np.uint64(30)) * _MIX
    values = (values ^ values >> np.uint64(27)) * _FINAL
    return values ^ values >> np.uint64(31)
