"""The streams' process: event streams and derived tables, until it is told to stop: `python -m pipelines.streams`."""

import os
import time
from pathlib import Path
from threading import Event, Thread

from pyspark.sql import SparkSession
from structlog.stdlib import BoundLogger

from pipelines import failpoints
from pipelines.changes import enforce
from pipelines.checks.audit import AuditBranch
from pipelines.dead_letters.store import DeadLetters
from pipelines.dead_letters.waiting import WaitingKeys
from pipelines.derived.announce import Announcer
from pipelines.derived.table import DerivedTable
from pipelines.errors import JavaCallFailed, StopPipeline
from pipelines.events.table import PIPELINE, StreamRules, StreamTable
from pipelines.kafka.lease import Lease
from pipelines.kafka.registry import SchemaRegistry
from pipelines.kafka.topic_reader import TopicReader
from pipelines.log import json_log
from pipelines.metrics.meter import Meter
from pipelines.metrics.serve import serve
from pipelines.progress.publish import STREAMS_GROUP, ProgressPublisher
from pipelines.protection.crypto import keys_for
from pipelines.protection.functions import Vault
from pipelines.settings import MirrorSettings
from pipelines.signals import stop_on_signals
from pipelines.spark.heap import tell_heap
from pipelines.spark.leaks import freeze_modules
from pipelines.spark.session import abandon, end_session, leave, start_session
from pipelines.specs.derived import DerivedSpec
from pipelines.specs.events import EventSpec
from pipelines.specs.load import SpecError, Specs, load_specs
from pipelines.streams.rounds import Brought, Streams
from quality import odcs
from quality.contract import Contract
from quality.errors import ContractError

# How many offsets of a stream a commit has, at most: all of them are in this process's memory at once.
AT_ONCE = 20_000
POLL_SECONDS = 0.2
# How long checks that look at other tables wait until they are asked once more.
AWAITED_SECONDS = 10
# Less than the service's grace period.
ROUND_SECONDS = 45


def main() -> int:
    """Run until SIGTERM or SIGINT (0), or until Spark or the lease is lost (1)."""
    log, stop, meter = json_log(), Event(), Meter("streams")

    stop_on_signals(log, stop)
    settings = MirrorSettings()
    serve(meter, log)
    failpoints.look_in(settings.failpoints)
    try:
        specs, contracts = load_specs(settings.specs), odcs.load(settings.contracts)
        every: tuple[EventSpec | DerivedSpec, ...] = (*specs.streams.values(), *specs.derived.values())
        mine = {spec.name: contracts[spec.name] for spec in every if spec.name in contracts}
        keys = keys_for(mine.values(), settings.protection_key)
    except (SpecError, ContractError) as error:
        log.error("bad_spec", error=str(error))
        return 1
    alive = settings.state_dir / "alive"
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    if not every:
        log.info("nothing_to_stream", next="a spec with `kind: events` or `kind: derived` in pipelines/specs")
        while not stop.wait(1):
            alive.touch()
        return 0
    for name in ("PROTECTION_KEY", "SPARK_SECRET_KEY"):
        os.environ.pop(name, None)
    lease = Lease(settings.kafka_bootstrap, f"{settings.source_name}.{PIPELINE}", settings.state_dir, log)
    spark = start_session(settings, f"streams {settings.source_name}")
    spark.sparkContext.setLogLevel("WARN")
    tell_heap(meter, spark)
    log.info("started", streams=sorted(specs.streams), derived=sorted(specs.derived), spark=settings.spark_master)
    try:
        enforce.check(spark, mine.values())
        vault = None if keys is None else Vault.of(spark, keys)
        streams = _streams(spark, settings, specs, mine, vault, stop, log, meter)
        freeze_modules()
        code = _run(spark, streams, lease, alive, stop, log) if lease.acquire(stop) else 0
    except (ContractError, StopPipeline) as error:
        log.error("bad_spec", error=str(error))
        return 1
    finally:
        end_session(spark)
        lease.close()
    return code


def _streams(
    spark: SparkSession, settings: MirrorSettings, specs: Specs, contracts: dict[tuple[str, str], Contract],
    vault: Vault | None, stop: Event, log: BoundLogger, meter: Meter,
) -> Streams:  # fmt: skip
    registry = SchemaRegistry(str(settings.schema_registry_url))
    records = TopicReader(settings.kafka_bootstrap, AT_ONCE)
    letters = DeadLetters(spark, settings.kafka_bootstrap, PIPELINE)
    waiting = WaitingKeys(spark, vault)
    tables: dict[str, Brought] = {}

    def audit(name: tuple[str, str]) -> AuditBranch | None:
        # Other tables come as far as this one while it waits.
        return AuditBranch.of(spark, contracts.get(name), lambda: _wait(stop))

    for spec in specs.streams.values():
        rules = StreamRules(
            contracts.get(spec.name), vault, settings.dead_letter_share, AT_ONCE, Path(settings.state_dir),
            audit(spec.name),
        )  # fmt: skip
        tables[spec.topic] = StreamTable(spec, records, registry, letters, waiting, rules)
    for derived in specs.derived.values():
        announcer = None
        if derived.announce is not None:
            announcer = Announcer(derived, derived.announce, settings.kafka_bootstrap)
        tables[derived.table] = DerivedTable(
            derived, contracts.get(derived.name), vault, announcer, audit(derived.name)
        )
    publisher = ProgressPublisher(settings.kafka_bootstrap, log, STREAMS_GROUP)
    publisher.publish_retries()

    def jvm_lives() -> bool:
        try:
            return not spark.sparkContext._jsc.sc().isStopped()
        except (JavaCallFailed, OSError, AttributeError):
            return False

    return Streams(spark, tables, specs, waiting, publisher, stop, log, jvm_lives, settings.state_dir, meter)


def _wait(stop: Event) -> None:
    stop.wait(AWAITED_SECONDS)


def _run(spark: SparkSession, streams: Streams, lease: Lease, alive: Path, stop: Event, log: BoundLogger) -> int:
    """Have round after round in a thread of its own, and watch the lease meanwhile."""
    failed: list[BaseException] = []

    def rounds() -> None:
        try:
            while not stop.is_set():
                streams.round()
            streams.finish()
        except BaseException as error:
            failed.append(error)

    worker = Thread(target=rounds, name="rounds", daemon=True)
    worker.start()
    while worker.is_alive() and lease.is_held() and not stop.wait(POLL_SECONDS):
        alive.touch()
    if worker.is_alive() and not stop.is_set():
        log.error("lost_lease", why="Kafka didn't answer for long, or another process brings these streams in now")
        abandon(spark, 1)
    patience = time.monotonic() + ROUND_SECONDS
    while worker.is_alive() and time.monotonic() < patience:
        worker.join(POLL_SECONDS)
    if failed:
        log.error("stopped_by_error", error=str(failed[0]), exc_info=failed[0])
        return 1
    log.info("stopped")
    return 0


if __name__ == "__main__":
    leave(main())
