"""Counters: what the service takes and tells, and what checks have found, for Prometheus at ``/metrics``."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lineage.store import Store

disable_created_metrics()  # type: ignore[no-untyped-call]


class Counters:
    """The metrics of one service."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.taken = Counter("lineage_events_taken", "Events that were kept", registry=registry)
        self.repeated = Counter("lineage_events_repeated", "Events that were known already", registry=registry)
        self.refused = Counter("lineage_events_refused", "Events that weren't kept, by why", ["why"], registry=registry)
        self.replaced = Counter(
            "lineage_events_replaced", "Events kept with a sign for what can't be", registry=registry
        )
        self.emitted = Counter("lineage_events_emitted", "Events told of the lake", ["reader"], registry=registry)
        self.trouble = Counter("lineage_looks_failed", "Looks at the lake that failed", ["reader"], registry=registry)
        self.looked = Gauge("lineage_looked_timestamp_seconds", "When the lake was looked at last", registry=registry)
        self.forwarded = Counter("lineage_events_forwarded", "Events sent on", registry=registry)
        self.waiting = Gauge("lineage_events_waiting", "Events that are still to be sent on", registry=registry)


class ChecksFound(Collector):
    """What the newest check of each table's contract has found, as its events say."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def describe(self) -> list[Metric]:
        """Return no descriptions: nothing is asked of the store before somebody looks."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Return the metrics, as of now."""
        promises = GaugeMetricFamily(
            "lakehouse_check_promises", "Promises of a table's contract at its newest check, by how it went",
            labels=["table", "outcome"],
        )  # fmt: skip
        at = GaugeMetricFamily("lakehouse_checked_timestamp_seconds", "When a table was checked", labels=["table"])
        failed = GaugeMetricFamily("lakehouse_check_failed", "1: the newest check couldn't be made", labels=["table"])
        for row in self._store.rows(_NEWEST):
            table = row["job"].removeprefix("check.")
            found = row["assertions"] or []
            kept = sum(bool(each["success"]) for each in found)
            promises.add_metric([table, "kept"], kept)
            promises.add_metric([table, "broken"], len(found) - kept)
            at.add_metric([table], row["ended_at"].timestamp())
            failed.add_metric([table], row["state"] == "FAILED")
        yield from (promises, at, failed)


_NEWEST = """
SELECT DISTINCT ON (j.id) j.name AS job, r.state, r.ended_at,
       u.facets->'dataQualityAssertions'->'assertions' AS assertions
FROM job j JOIN run r ON r.job = j.id AND r.ended_at IS NOT NULL LEFT JOIN use u ON u.run = r.id
WHERE j.namespace = 'lakehouse' AND j.name LIKE 'check.%%'
ORDER BY j.id, r.started_at DESC"""
