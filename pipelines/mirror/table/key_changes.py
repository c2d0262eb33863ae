"""Key changes: a table follows those that the schema log tells of (see :mod:`pipelines.evolve.key_change`), each after
all that was written before it.
"""

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import SparkSession

from pipelines.changes.topic_batch import TopicBatch
from pipelines.evolve import key_change as rekey
from pipelines.evolve.key_change import change_key
from pipelines.lake.catalog import Lake
from pipelines.lake.table import LakeTable
from pipelines.ledger.entries import Counts
from pipelines.ledger.resyncs import Resync
from pipelines.ledger.table_ledger import TableLedger
from pipelines.mirror.table.topic import Topic
from pipelines.protection.columns import ProtectedColumns
from pipelines.schema.versions import TableVersions
from pipelines.specs.load import SchemaPolicy


class KeyChanges:
    """Of one table. ``take``: mirrors a part of its topic; ``look``: has the account look at the table."""

    def __init__(
        self, topic: Topic, account: TableLedger, policy: SchemaPolicy, take: Callable[[TopicBatch], None],
        look: Callable[[SparkSession], None], protected: ProtectedColumns,
    ) -> None:  # fmt: skip
        self._topic, self._account, self._policy, self._protected = topic, account, policy, protected
        self._take, self._look = take, look

    def follow(self, planned: TopicBatch, resync: Resync | None) -> None:
        """Follow what is due before ``planned``; ``resync``: the newest one of the topic."""
        account, versions, session = self._account, self._topic.versions(), planned.session
        account.followed = versions
        if rekey.is_anothers(account.table, versions):
            self._clear(versions, planned, resync)
        for change in rekey.due(account.table, versions):
            before = versions.up_to(change, included=False)
            older = self._topic.older(change, account.reached, session, whole=not before.versions[-1].key)
            for ranges, records in older:
                self._take(replace(planned, raw=records, offsets=ranges, versions=before))
            if account.table is not None:
                self._rekey(account.table, versions.up_to(change, included=True), planned, resync)

    def _clear(self, versions: TableVersions, planned: TopicBatch, resync: Resync | None) -> None:
        """Begin again as another table that has the name now: what is older than it is superseded."""
        first, account = versions.versions[0], self._account
        for ranges, records in self._topic.older(first, account.reached, planned.session):
            seen = self._topic.profile(records)
            counts = Counts(superseded=seen.rows - seen.tombstones, tombstones=seen.tombstones)
            account.enter(replace(planned, raw=records, seen=seen, offsets=ranges), counts)
            account.read_through(ranges)
        if account.table is None:
            return
        # Where whole files go, Iceberg's DELETE leaves out what its commit is told to carry.
        planned.session.sql(f"DELETE FROM {account.table.sql_name} WHERE _lsn < {first.lsn:d}")
        account.enter_state(account.known.after({}, first.lsn), planned.batch)
        self._rekey(account.table, versions.up_to(first, included=True), planned, resync)
        self._look(planned.session)

    def _rekey(self, table: LakeTable, known: TableVersions, planned: TopicBatch, resync: Resync | None) -> None:
        with planned.outcome.stage("evolve"):
            resyncing = resync is not None and resync.awaited_by(self._account.known)
            done = change_key(
                Lake(planned.session), planned.session, table, known, self._policy, resyncing, self._protected
            )
            planned.outcome.schema_changes += [str(change) for change in done]
