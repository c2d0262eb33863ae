"""The ledger's proof, from tables' histories alone: every offset of a topic is in one commit, and what became of it."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from pyiceberg.expressions import And, BooleanExpression, EqualTo
from pyiceberg.table import Table

from pipelines.dead_letters import actions
from pipelines.lake.names import DEAD_LETTER_ACTIONS
from pipelines.lake.properties import TOPIC
from pipelines.ledger.entries import Counts, add_up, commit_entries, ledger_problems
from services.stack import lake
from services.stack.endpoints import StackSettings
from services.stack.errors import CannotVerify
from services.stack.progress import OnProgress, Progress, silent


@dataclass
class TableHistory:
    """One table's history, as its commits tell it.

    ``complete``: its history is kept from the first commit on, so that its offsets must begin at 0, or a later commit's
    total tells what is expired of it.

    ``offsets``: how many its commits account for, of which Kafka ``lost`` some before they were read (a resync made up
    for them); what of the others is neither in ``counts`` nor in ``uncounted`` commits is a marker of a transaction.
    ``letters``: those that the dead-letter table has of these offsets.
    """

    table: str
    topic: str
    complete: bool
    commits: int = 0
    uncounted: int = 0
    offsets: int = 0
    lost: int = 0
    counts: Counts = field(default_factory=Counts)
    letters: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def markers(self) -> int:
        """Offsets that aren't records."""
        return self.offsets - self.lost - self.counts.records

    def to_json(self) -> dict[str, Any]:
        """Return the history as plain data."""
        return {**asdict(self), "markers": self.markers, "whole": not self.problems}


def histories(
    settings: StackSettings, tables: Iterable[str] = (), on_progress: OnProgress = silent
) -> list[TableHistory]:
    """Return the history of every table that a topic fills, or of those named.

    A name is ``table`` or ``schema.table`` of the source, or ``namespace.table`` of an event stream. Raises
    Unreachable, and CannotVerify for a name that no table has.
    """
    catalog = lake.open_catalog(settings)
    wanted, found = set(tables), []
    every = [
        (table, p.full_name, p.topic, {p.source_table, f"{p.schema}.{p.source_table}"})
        for table in lake.tables(catalog, settings)
        if (p := lake.pin(table))
    ]
    for table in lake.streams(catalog, settings):
        namespace, name = table.name()[-2:]
        every.append((table, f"lake.{namespace}.{name}", table.properties[TOPIC], {f"{namespace}.{name}"}))
    unknown = wanted - {name for *_, names in every for name in names}
    if unknown:
        raise CannotVerify(f"no table of the lake is of {', '.join(sorted(unknown))}.")
    letters = [found for found in (lake.dead_letters(catalog), lake.own_table(catalog, DEAD_LETTER_ACTIONS)) if found]
    for table, full_name, topic, names in every:
        if not wanted or wanted & names:
            on_progress(Progress(full_name, "reading its history"))
            found.append(_history(table, full_name, topic, letters))
    return found


def _history(table: Table, full_name: str, topic: str, letters: list[Table]) -> TableHistory:
    snapshots = list(lake.lineage(table))[::-1]
    whole = not snapshots or snapshots[0].parent_snapshot_id is None
    entries = commit_entries(s.summary.additional_properties for s in snapshots if s.summary is not None)
    complete = whole or any(entry.total is not None for entry in entries)
    found = TableHistory(full_name, topic, complete)
    found.problems = ledger_problems(entries, whole)
    total = add_up(entries)
    found.commits, found.uncounted, found.offsets = total.commits, total.uncounted, total.offsets
    found.lost, found.counts = total.lost, total.counts
    found.letters = _count(letters, topic, total.spans)
    # There may be more, from before the table was dropped or rolled back and read its topic again in other batches.
    if found.letters < found.counts.dead_lettered:
        found.problems.append(
            f"its commits dead-lettered {found.counts.dead_lettered} records, and the dead-letter table has only"
            f" {found.letters} of these offsets"
        )
    return found


def _count(letters: list[Table], topic: str, covered: dict[int, tuple[int, int]]) -> int:
    """Return how many letters there are of these offsets.

    They are in their table, or were taken out of it because their row was erased.
    """
    found: set[tuple[int, int]] = set()
    for table in letters:
        condition: BooleanExpression = EqualTo(term="topic", value=topic)
        if table.name()[-1] == DEAD_LETTER_ACTIONS:
            condition = And(condition, EqualTo(term="action", value=actions.ERASED))
        rows = table.scan(row_filter=condition, selected_fields=("partition", "offset")).to_arrow().to_pylist()
        found |= {(row["partition"], row["offset"]) for row in rows}
    spans = ((offset, covered.get(partition, (0, 0))) for partition, offset in found)
    return sum(start <= offset < end for offset, (start, end) in spans)
