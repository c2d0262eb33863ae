"""Follow the key changes that the schema log tells of, each after all that was written before it.

See :mod:`pipelines.evolve.key_change`.
"""

from collections.abc import Iterator
from dataclasses import replace

from pipelines.changes.topic_batch import TopicBatch
from pipelines.evolve.key_change import change_key, due_key_changes, is_other_table
from pipelines.lake.catalog import Lake
from pipelines.lake.table import LakeTable
from pipelines.ledger.entries import Counts
from pipelines.ledger.resyncs import Resync, replaces_rows
from pipelines.ledger.table_ledger import TableLedger
from pipelines.mirror.table.topic import Topic
from pipelines.protection.columns import ProtectedColumns
from pipelines.schema.versions import TableVersions
from pipelines.specs.load import SchemaPolicy


class KeyChanges:
    """The key changes of one table."""

    def __init__(self, topic: Topic, ledger: TableLedger, policy: SchemaPolicy, protected: ProtectedColumns) -> None:
        self._topic, self._ledger, self._policy, self._protected = topic, ledger, policy, protected

    def follow(self, planned: TopicBatch, resync: Resync | None) -> Iterator[TopicBatch]:
        """Follow what is due before ``planned``, yielding what must be committed before each change.

        ``resync``: the newest one of the topic.
        """
        ledger, versions, session = self._ledger, self._topic.versions(), planned.session
        ledger.followed = versions
        if is_other_table(ledger.table, versions):
            self._clear(versions, planned, resync)
        for change in due_key_changes(ledger.table, versions):
            before = versions.up_to(change, included=False)
            older = self._topic.older(change, ledger.reached, session, whole=not before.versions[-1].key)
            for ranges, records in older:
                yield replace(planned, raw=records, offsets=ranges, versions=before)
            if ledger.table is not None:
                self._change_key(ledger.table, versions.up_to(change, included=True), planned, resync)

    def _clear(self, versions: TableVersions, planned: TopicBatch, resync: Resync | None) -> None:
        """Begin again as another table that has the name now: what is older than it is superseded."""
        first, ledger = versions.versions[0], self._ledger
        for ranges, records in self._topic.older(first, ledger.reached, planned.session):
            profile = self._topic.profile(records)
            counts = Counts(superseded=profile.rows - profile.tombstones, tombstones=profile.tombstones)
            planned.outcome.note(counts, {})
            ledger.commit(planned.batch, ranges, counts)
            ledger.read_through(ranges)
        if ledger.table is None:
            return
        # Where whole files go, Iceberg's DELETE leaves out what its commit is told to carry.
        planned.session.sql(f"DELETE FROM {ledger.table.sql_name} WHERE _lsn < {first.log_position:d}")
        ledger.commit_state(ledger.known.after({}, first.log_position), planned.batch)
        self._change_key(ledger.table, versions.up_to(first, included=True), planned, resync)
        ledger.load(Lake(planned.session))

    def _change_key(self, table: LakeTable, known: TableVersions, planned: TopicBatch, resync: Resync | None) -> None:
        with planned.outcome.stage("evolve"):
            resyncing = replaces_rows(resync, self._ledger.known)
            done = change_key(planned.session, table, known, self._policy, resyncing, self._protected)
            planned.outcome.schema_changes += [str(change) for change in done]
