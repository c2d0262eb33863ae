"""The mirror's process: one streaming query from the captured topics to the lake, until it is told to stop."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from functools import partial
from threading import Event

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from structlog.stdlib import BoundLogger

from pipelines import failpoints
from pipelines.changes import enforce
from pipelines.kafka.checkpoint import OffsetLog
from pipelines.kafka.lease import Lease
from pipelines.kafka.read import read_stream
from pipelines.kafka.topic_reader import is_outrun
from pipelines.log import json_log
from pipelines.metrics.meter import Meter
from pipelines.metrics.serve import serve
from pipelines.mirror.batch import BatchMirror
from pipelines.mirror.jit import choose_jit, restart_process
from pipelines.progress.publish import ProgressPublisher
from pipelines.protection.crypto import keys_for
from pipelines.protection.functions import Vault
from pipelines.settings import MirrorSettings
from pipelines.signals import SIGNALS, stop_on_signals
from pipelines.sources.kinds import stream_source
from pipelines.spark.executors import ABSENT_SECONDS, ExecutorWatch
from pipelines.spark.heap import tell_heap
from pipelines.spark.leaks import freeze_modules
from pipelines.spark.session import abandon, end_session, leave, start_session
from pipelines.specs.load import SpecError, load_specs
from quality import odcs
from quality.errors import ContractError

POLL_SECONDS = 0.2
TRIGGER = "500 milliseconds"
# Less than the service's grace period, after which it is killed (which repeats and loses nothing either).
BATCH_SECONDS = 45


def main() -> int:
    """Run until SIGTERM or SIGINT (0), or until the query fails or the lease is lost (1).

    After a failure the service's supervisor starts it anew. After a backlog it does so itself.
    """
    log, environment = json_log(), dict(os.environ)
    stop, asked, caught_up = Event(), Event(), Event()

    stop_on_signals(log, asked, stop)
    settings = MirrorSettings()
    failpoints.look_in(settings.failpoints)
    try:
        specs, contracts = load_specs(settings.specs), odcs.load(settings.contracts)
        keys = keys_for(contracts.values(), settings.protection_key)
    except (SpecError, ContractError) as error:
        log.error("bad_spec", error=str(error))
        return 1
    # Spark is given the keys, and its processes needn't have the secrets.
    for name in ("PROTECTION_KEY", "SPARK_SECRET_KEY"):
        os.environ.pop(name, None)
    lease = Lease(settings.kafka_bootstrap, settings.source_name, settings.state_dir, log)
    source, meter = stream_source(settings), Meter("mirror")
    serve(meter, log)
    chosen = choose_jit(settings, source.topic_pattern)
    settings = settings.model_copy(update={"spark_java_options": chosen.java_options})
    spark = start_session(settings, f"mirror {settings.source_name}", lasting=True)
    spark.sparkContext.setLogLevel("WARN")
    tell_heap(meter, spark)
    log.info("started", source=settings.source_name, schemas=settings.schemas, spark=settings.spark_master,
             backlog=chosen.backlog, java_options=chosen.java_options)  # fmt: skip
    try:
        enforce.check(spark, contracts.values())
        vault = None if keys is None else Vault.of(spark, keys)
        mirror = partial(BatchMirror, spark, settings, source, stop, caught_up, log, meter, specs, contracts, vault)
        done = caught_up if chosen.for_backlog else Event()
        freeze_modules()
        code = _run(spark, settings, source.topic_pattern, mirror, lease, stop, done, log) if lease.acquire(stop) else 0
    except ContractError as error:
        log.error("bad_spec", error=str(error))
        return 1
    finally:
        end_session(spark)
        lease.close()
    # Whoever asks from now on is answered by the end of this process.
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    if code == 0 and not asked.is_set():
        restart_process(environment)
    return code


def _run(
    spark: SparkSession, settings: MirrorSettings, topic_pattern: str, mirror: Callable[[], BatchMirror], lease: Lease,
    stop: Event, done: Event, log: BoundLogger,
) -> int:  # fmt: skip
    offsets = OffsetLog(settings.checkpoint)
    if is_outrun(offsets.next(), settings.kafka_bootstrap):
        # The checkpoint is of no more use. Without it every topic is read from what Kafka holds of it, and each table's
        # ledger says what of that is news, and whether anything is lost.
        log.warning("checkpoint_given_up", because="Kafka doesn't hold any more what it would go on with")
        shutil.rmtree(settings.checkpoint)
    # What has come since is in the same batch then: the first one after a start costs most, whatever is in it.
    if (batch := offsets.forget_unfinished()) is not None:
        log.info("planned_anew", batch=batch)
    # The first batch of a process tries each table.
    ProgressPublisher(settings.kafka_bootstrap, log).publish_retries()
    query = (
        read_stream(spark, settings.kafka_bootstrap, topic_pattern, settings.max_offsets_per_trigger)
        .writeStream.queryName("mirror")
        .foreachBatch(mirror())
        .option("checkpointLocation", str(settings.checkpoint))
        .trigger(processingTime=TRIGGER)
        .start()
    )
    alive, executors = settings.state_dir / "alive", ExecutorWatch(spark)
    while query.isActive and lease.is_held() and not stop.wait(POLL_SECONDS):
        alive.touch()
        if executors.has_none():
            log.error("no_executors", seconds=ABSENT_SECONDS,
                      next="the same process anew; if that has none either, see infra/runbooks/lag-grows.md",
                      why="Spark's cluster has none to give, or doesn't know this application any more")  # fmt: skip
            abandon(spark, 1)
        if done.is_set():
            log.info("caught_up", next="the same process anew, for batches that are small")
            stop.set()
    if query.isActive and not stop.is_set():
        log.error("lost_lease", why="Kafka didn't answer for long, or another mirror of this source works now")
        abandon(spark, 1)
    if not stop.is_set():
        return _failed(query, log)
    _finish_batch(query)
    log.info("stopped")
    return 0


def _finish_batch(query: StreamingQuery) -> None:
    """Let a running batch end (no other begins), and stop the query."""
    patience = time.monotonic() + BATCH_SECONDS
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < patience:
        time.sleep(POLL_SECONDS)
    query.stop()


def _failed(query: StreamingQuery, log: BoundLogger) -> int:
    try:
        query.awaitTermination(1)
    except StreamingQueryException as error:
        log.error("stopped_by_error", error=str(error))
    return 1


if __name__ == "__main__":
    leave(main())
