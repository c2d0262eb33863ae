"""The mirrors of tables, each made when its topic is first met."""

from collections.abc import Mapping
from threading import Event

from pyspark.sql import SparkSession

from pipelines.checks.audit import AuditBranch
from pipelines.kafka.topic_reader import TopicReader
from pipelines.lake.file_rows import Budget
from pipelines.limits import Limits
from pipelines.mirror.pace import Pace
from pipelines.mirror.table.mirror import TableMirror
from pipelines.mirror.table.ports import LetterStore, ResyncLookup, WaitingLookup
from pipelines.mirror.table.rules import Rules
from pipelines.mirror.table.topic import Topic
from pipelines.protection.functions import Vault
from pipelines.settings import MirrorSettings
from pipelines.sources.base.source import StreamSource
from pipelines.specs.load import Specs
from quality.contract import Contract

PIPELINE = "mirror"


class Tables:
    """The mirrors of all tables, and what they have in common.

    ``mirrors``: topic to its mirror, of those that have been met.
    """

    def __init__(
        self,
        spark: SparkSession,
        settings: MirrorSettings,
        source: StreamSource,
        specs: Specs,
        contracts: Mapping[tuple[str, str], Contract],
        vault: Vault | None,
        limits: Limits,
        stop: Event,
    ) -> None:
        self._spark, self._settings, self._source, self._specs = spark, settings, source, specs
        self._contracts, self._vault, self._limits, self._stop = contracts, vault, limits, stop
        self._records = TopicReader(settings.kafka_bootstrap, settings.max_offsets_per_trigger)
        self._budget = Budget(limits.remembered_rows)
        self.mirrors: dict[str, TableMirror] = {}

    def mirror_of(
        self, name: str, pace: Pace, letters: LetterStore, waiting: WaitingLookup, resyncs: ResyncLookup
    ) -> TableMirror:
        """Return the mirror of a topic, made if it is met for the first time. Raises RetryBatch."""
        if name not in self.mirrors:
            topic = Topic(name, self._source, self._records)
            contract = self._contracts.get(topic.table)
            audit = AuditBranch.of(self._spark, contract, self._await_others)
            rules = Rules(
                self._settings.source_name,
                PIPELINE,
                self._settings.dead_letter_share,
                self._specs.schema_policy(*topic.table),
                self._specs.layout(*topic.table),
                contract,
                audit,
                self._vault,
                self._limits,
                self._budget,
            )
            pace.add(name, self._specs.freshness(*topic.table))
            self.mirrors[name] = TableMirror(topic, rules, letters, waiting, resyncs)
        return self.mirrors[name]

    def _await_others(self) -> None:
        """Let other tables come as far as one that is audited: two commits' time."""
        self._stop.wait(2 * self._specs.default_freshness)
