"""Report a batch: in one line of the log, and in metrics."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pipelines.changes.topic_batch import TopicOutcome
from pipelines.ledger.entries import Counts
from pipelines.metrics.meter import Meter
from pipelines.metrics.tables import TableMeter
from pipelines.mirror.table.mirror import TableMirror


def batch_line(number: int, outcomes: Sequence[TopicOutcome], profile_s: float, total_s: float) -> dict[str, Any]:
    """Return the line of a batch: of all tables together, and by topic what became of them.

    ``profile_s``, ``total_s``: seconds of the look at what came, and of the whole batch; in the line times are
    milliseconds, ``stage_ms`` the sums over tables, which are merged side by side. ``lag_ms``: the age of the oldest
    change that it brought; None: it brought none.
    """
    stages: dict[str, int] = {"profile": round(profile_s * 1000)}
    for outcome in outcomes:
        for stage, ms in outcome.ms.items():
            stages[stage] = stages.get(stage, 0) + ms
    counts = sum((outcome.counts for outcome in outcomes), start=Counts())
    oldest = min((o.oldest_commit for o in outcomes if o.oldest_commit is not None), default=None)
    return {
        "batch": number,
        "rows": {o.topic: o.rows + o.reread for o in sorted(outcomes, key=lambda o: o.topic) if o.rows or o.reread},
        **{name: count for name, count in asdict(counts).items() if name != "duplicates"},
        "schema_changes": {o.topic: o.schema_changes for o in outcomes if o.schema_changes},
        "layout": {o.topic: o.layout for o in outcomes if o.layout},
        "described": {o.topic: o.described for o in outcomes if o.described},
        "broken": {o.topic: o.broken for o in outcomes if o.broken},
        "skipped": sum(outcome.skipped for outcome in outcomes),
        "reread": sum(outcome.reread for outcome in outcomes),
        "swept": {o.topic: o.swept for o in outcomes if o.swept},
        "assumed": sorted(o.topic for o in outcomes if o.expected),
        "tables_committed": sum(outcome.committed for outcome in outcomes),
        "writers": dict(sum((outcome.writers for outcome in outcomes), start=Counter[str]())),
        "ms": round(total_s * 1000),
        "stage_ms": stages,
        "lag_ms": None if oldest is None else round((time.time() - oldest) * 1000),
    }


class MirrorMeter:
    """The metrics of the mirror's tables. ``tables``: topic to its mirror, of those that have been met."""

    def __init__(self, meter: Meter, tables: Mapping[str, TableMirror]) -> None:
        self._meter, self._each, self._tables = meter, TableMeter(meter), tables

    def batch(self, outcomes: Sequence[TopicOutcome], held: Iterable[str], seconds: float) -> None:
        """Tell what became of a batch's tables, and which of all are ``held``."""
        for outcome in outcomes:
            self._table(self._tables[outcome.topic].lake_name, outcome)
        if outcomes:
            self._meter.add("lakehouse_batches_total")
            self._meter.add("lakehouse_batch_seconds_total", seconds)
        self._each.held({mirror.lake_name: topic in held for topic, mirror in self._tables.items()})

    def failed(self, topic: str, error: BaseException) -> None:
        """Tell that a table couldn't be brought on."""
        self._each.failed(self._tables[topic].lake_name, error)

    def _table(self, table: str, outcome: TopicOutcome) -> None:
        self._each.records(table, outcome.rows + outcome.reread, asdict(outcome.counts), outcome.broken)
        self._each.commits(table, outcome.writers)
        self._each.took(table, {stage: ms / 1000 for stage, ms in outcome.ms.items()})
        if outcome.oldest_commit is not None and outcome.committed:
            self._each.visible(table, time.time() - outcome.oldest_commit)
