"""Open dead letters, counted and listed without the records themselves; a hundred thousand of them take no time."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog

from pipelines.lake.names import DEAD_LETTER_ACTIONS, DEAD_LETTERS
from services.operations.dead_letters.letters import CLOSING, POSITION
from services.stack.lake import own_table

COLUMNS = (*POSITION, "stage", "reason", "message", "dead_lettered_at")


@dataclass(frozen=True)
class OpenLetters:
    """The open letters, newest first, as of the snapshots of both tables."""

    of: tuple[int | None, int | None]
    rows: pa.Table

    @property
    def counts(self) -> list[dict[str, Any]]:
        """How many there are by topic and reason, and since when the oldest of each."""
        if not self.rows.num_rows:
            return []
        grouped = self.rows.group_by(["topic", "reason"]).aggregate(
            [("offset", "count"), ("dead_lettered_at", "min"), ("dead_lettered_at", "max")]
        )
        renamed = {"offset_count": "letters", "dead_lettered_at_min": "oldest", "dead_lettered_at_max": "newest"}
        rows = grouped.rename_columns([renamed.get(name, name) for name in grouped.column_names]).to_pylist()
        return sorted(rows, key=lambda row: -row["letters"])

    def page(self, topic: str | None, reason: str | None, start: int, count: int) -> tuple[int, list[dict[str, Any]]]:
        """Return how many there are of a topic and a reason, and a page of them, newest first."""
        rows = self.rows
        for column, value in (("topic", topic), ("reason", reason)):
            if value:
                rows = rows.filter(pc.equal(rows[column], value))
        return rows.num_rows, rows.slice(start, count).to_pylist()


def open_letters(catalog: Catalog, known: OpenLetters | None = None) -> OpenLetters:
    """Return the open letters; ``known``: what was found before, which is returned while nothing has changed."""
    letters, actions = own_table(catalog, DEAD_LETTERS), own_table(catalog, DEAD_LETTER_ACTIONS)
    current = [table.current_snapshot() if table is not None else None for table in (letters, actions)]
    of = (current[0].snapshot_id if current[0] else None, current[1].snapshot_id if current[1] else None)
    if known is not None and known.of == of:
        return known
    if letters is None:
        return OpenLetters(of, pa.table({name: pa.array([], pa.string()) for name in COLUMNS}))
    rows = letters.scan(selected_fields=COLUMNS).to_arrow()
    if actions is not None:
        closed = actions.scan(row_filter=CLOSING, selected_fields=POSITION).to_arrow().select(list(POSITION))
        rows = rows.join(closed.group_by(list(POSITION)).aggregate([]), keys=list(POSITION), join_type="left anti")
    return OpenLetters(of, rows.sort_by([("dead_lettered_at", "descending")]))
