"""A table's fingerprint: how many rows it has, and two sums of their hashes.

Equal multisets of rows have equal fingerprints, in whatever order they are read. Others have equal ones with a chance
of one in 2^128, unless somebody chose rows for that. Rows pass by and none is held, so a table of any size is compared
in little memory where no key cuts it into chunks.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from services.verify.columns import ComparedColumn
from services.verify.staging import LAKE, TAIL, parsed_values

_SUMS = 1 << 64
_BATCH_ROWS = 50_000


@dataclass(frozen=True)
class Fingerprint:
    """The fingerprint of a multiset of rows. ``low`` and ``high``: sums of the halves of their hashes, modulo 2^64."""

    rows: int = 0
    low: int = 0
    high: int = 0

    def plus(self, other: "Fingerprint", times: int = 1) -> "Fingerprint":
        """Return the fingerprint of both together, of which ``other`` so many times; negative: without it."""
        return Fingerprint(
            self.rows + times * other.rows,
            (self.low + times * other.low) % _SUMS,
            (self.high + times * other.high) % _SUMS,
        )


def fingerprint_source(
    connection: duckdb.DuckDBPyConnection,
    columns: Sequence[ComparedColumn],
    batches: Iterator[pa.RecordBatch],
    on_rows: Callable[[int], None],
) -> Fingerprint:
    """Return the fingerprint of batches of canonical text, as :meth:`TableReader.rows` gives them."""
    hashed = _hashed(columns, f"(SELECT {parsed_values(columns)} FROM incoming)", "unfit")
    found = Fingerprint()
    for batch in batches:
        connection.register("incoming", pa.Table.from_batches([batch]))
        try:
            found = found.plus(_sum(connection.execute(hashed).to_arrow_table()))
        finally:
            connection.unregister("incoming")
        on_rows(found.rows)
    return found


def fingerprint_lake(
    connection: duckdb.DuckDBPyConnection,
    columns: Sequence[ComparedColumn],
    keyless: bool,
    on_rows: Callable[[int], None],
) -> Fingerprint:
    """Return the fingerprint of the view LAKE, which without a key has the rows that the tail removes.

    A removed row that isn't there changes nothing.
    """
    gone = _hashed(columns, f"(SELECT * FROM {TAIL} WHERE gone)") if keyless else None
    removed = Counter(_row(*row) for row in connection.execute(gone).fetchall()) if gone else Counter()
    query = _hashed(columns, LAKE)
    if removed:
        query = (
            f"SELECT r.low, r.high, g.low IS NOT NULL AS removed FROM ({query}) r"
            f" LEFT JOIN (SELECT DISTINCT low, high FROM ({gone})) g ON r.low = g.low AND r.high = g.high"
        )
    found, there = Fingerprint(), Counter[Fingerprint]()
    for batch in connection.execute(query).to_arrow_reader(_BATCH_ROWS):
        found = found.plus(_sum(batch))
        if removed:
            equal = batch.filter(batch["removed"])
            there.update(map(_row, equal["low"].to_pylist(), equal["high"].to_pylist()))
        on_rows(found.rows)
    for row, times in (removed & there).items():
        found = found.plus(row, -times)
    return found


def _row(low: int, high: int) -> Fingerprint:
    return Fingerprint(1, low, high)


def _sum(hashes: pa.Table | pa.RecordBatch) -> Fingerprint:
    # Arrow's sums of unsigned integers are modulo 2^64.
    low, high = (int(pc.sum(hashes[half]).as_py() or 0) for half in ("low", "high"))
    return Fingerprint(hashes.num_rows, low, high)


def _hashed(columns: Sequence[ComparedColumn], rows: str, unfit: str = "NULL") -> str:
    """Return the query of both halves of the rows' hashes.

    A row's text tells where each value ends and which is null, so that other rows, or values in other columns, have
    another one. It says what the source's type holds and the lake's can't (``unfit``).
    """
    texts = [_text(column, f"c{i}") for i, column in enumerate(columns)] + [f"CAST({unfit} AS VARCHAR)"]
    named = ", ".join(f"{text} AS t{i}" for i, text in enumerate(texts))
    whole = ", ".join(f"coalesce(strlen(t{i}) || ':' || t{i}, '-')" for i in range(len(texts)))
    return (
        f"SELECT md5_number_lower(row_text) AS low, md5_number_upper(row_text) AS high"
        f" FROM (SELECT concat({whole}) AS row_text FROM (SELECT {named} FROM {rows}))"
    )


def _text(column: ComparedColumn, value: str) -> str:
    """Return DuckDB's expression for a text that is equal for equal values only, whichever side's type they have."""
    grouped = column.grouped(value)
    if column.source.base == "hstore":
        return f"CAST(to_json({grouped}) AS VARCHAR)"
    if column.kind.endswith("[]"):
        return f"CAST(to_json(CAST({grouped} AS VARCHAR[])) AS VARCHAR)"
    if column.kind == "BLOB":
        return f"hex({grouped})"
    text = f"CAST({grouped} AS VARCHAR)"
    if column.kind.startswith("DECIMAL"):
        # The lake's type may have more digits.
        return f"CASE WHEN contains({text}, '.') THEN rtrim(rtrim({text}, '0'), '.') ELSE {text} END"
    return text
