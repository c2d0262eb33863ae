"""What event streams and derived tables cost: `python -m tests.bench.beside append|customers|windows`.

``append`` has a stack of its own, and a plain append of the same topic by Spark beside it. The others have no servers:
the tables are in a folder, so that catalog and object store aren't part of what is measured.
"""

import json
import os
import shutil
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory, mkdtemp
from typing import Annotated, Any

import psutil
import typer
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from pipelines.derived.table import DerivedTable
from pipelines.kafka.client import create_topic
from pipelines.lake.properties import TABLE_PROPERTIES
from pipelines.specs.load import DIRECTORY, load_specs
from services.producers.__main__ import PARTITIONS
from services.producers.logs import Logs
from tests.bench.jobs.append_json import TABLE, TOPIC
from tests.bench.processes import Measured
from tests.bench.stage import Stage
from tests.integration.stack import CHECKOUT, PYTHON, wait_until
from tests.unit.pipelines.local import local_session

WARM_UP, ROUNDS = 3, 7
LINES = 20_000
# A topic's end is far away: commits of what was read of its beginning.
PATIENCE = 900.0
OURS = "events.logs"
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def append(events: Annotated[int, typer.Option(min=1_000, help="Log lines in the topic.")] = 600_000) -> None:
    """Bring a topic of log lines into a table: ours, and a plain append."""
    folder = Path(mkdtemp(prefix="lakehouse-append-"))
    stage = Stage(folder)
    try:
        stage.set_up()
        _send(stage, events)
        shutil.copytree(
            DIRECTORY, specs := folder / "only", ignore=shutil.ignore_patterns("*.py", "__pycache__", "[!de]*")
        )
        for path in specs.glob("events.clicks*"):
            path.unlink()
        (folder / "none").mkdir()
        own = {"SPECS": str(specs), "CONTRACTS": str(folder / "none")}
        found = {
            "plain append": _timed(stage, "tests.bench.jobs.append_json", TABLE.removeprefix("lake."), events, {}),
            "event stream": _timed(stage, "pipelines.streams", OURS, events, own),
        }
    finally:
        stage.make("down")
    shutil.rmtree(folder)
    typer.echo(json.dumps(found))


def _send(stage: Stage, events: int) -> None:
    """Send log lines that happened just now; many are the same but for what Kafka says of them."""
    create_topic(stage.endpoints["kafka_bootstrap"], TOPIC, {}, PARTITIONS)
    logs = Logs(Random(1))
    lines = [json.dumps(event.value).encode() for _ in range(LINES) for event in logs.at(datetime.now(UTC))]
    producer = Producer(
        {
            "bootstrap.servers": stage.endpoints["kafka_bootstrap"],
            "linger.ms": 50,
            "queue.buffering.max.messages": 500_000,
        }
    )
    for number in range(events):
        while True:
            try:
                producer.produce(TOPIC, lines[number % len(lines)], key=str(number % 64))
                break
            except BufferError:
                producer.poll(0.5)
    assert producer.flush(120) == 0


def _timed(stage: Stage, module: str, table: str, events: int, more: dict[str, str]) -> dict[str, float]:
    """Start a process on the topic, and return what it took to bring all of it in."""
    state = stage.folder / "bench" / module
    state.mkdir(parents=True)
    own = {"STATE_DIR": str(state), "SPARK_UI_PORT": "0", "LAKEHOUSE_SERVICE": "bench"}
    environment = {**os.environ, **stage.mirror_environment, **own, **more}
    with Measured([PYTHON, "-m", module], CHECKOUT, environment, state / "log") as process:

        def all_there() -> bool:
            assert process.working, process.tail()
            return _rows(stage, table) >= events

        wait_until(all_there, PATIENCE)
        cpu, memory = process.cpu_seconds(), process.peak_bytes()
    commits = [
        (snapshot.timestamp_ms / 1000, int(snapshot.summary["total-records"] or 0))
        for snapshot in stage.catalog().load_table(table).snapshots()
        if snapshot.summary and int(snapshot.summary["added-records"] or 0)
    ]
    (began, first), (ended, last) = commits[0], commits[-1]
    rate = (last - first) / (ended - began) if ended > began else 0.0
    return {
        "rows": last, "commits": len(commits), "rows a second": round(rate),
        "CPU-s a million, start included": round(cpu / events * 1e6, 1), "peak MiB": round(memory / 2**20),
    }  # fmt: skip


def _rows(stage: Stage, table: str) -> int:
    if not stage.catalog().table_exists(table):
        return 0
    snapshot = stage.catalog().load_table(table).current_snapshot()
    return int(snapshot.summary["total-records"] or 0) if snapshot is not None and snapshot.summary else 0


@app.command()
def customers(
    sizes: Annotated[str, typer.Option(help="Customers, by commas.")] = "10000,100000",
    changes: Annotated[int, typer.Option(help="Changed orders a refresh.")] = 1_000,
) -> None:
    """Refresh customer 360 as orders change, with so many customers."""
    found = {}
    for size in map(int, sizes.split(",")):
        with TemporaryDirectory() as folder:
            spark = _session(Path(folder))
            _shop(spark, size)
            table = DerivedTable(load_specs().derived["marts.customer_360"])
            chance = Random(1)

            def change(spark: SparkSession = spark, size: int = size, chance: Random = chance) -> None:
                keys = ",".join(str(chance.randrange(5 * size)) for _ in range(changes))
                spark.sql(f"UPDATE lake.shop.orders SET total = total + 1 WHERE order_id IN ({keys})")

            found[size] = _refreshed(spark, table, change, changes)
            spark.stop()
    typer.echo(json.dumps(found))


@app.command()
def windows(
    sizes: Annotated[str, typer.Option(help="Readings in the table, by commas.")] = "500000,5000000",
    readings: Annotated[int, typer.Option(help="New readings a refresh.")] = 20_000,
) -> None:
    """Refresh the one-minute windows as readings come, with so many readings there."""
    found = {}
    for size in map(int, sizes.split(",")):
        with TemporaryDirectory() as folder:
            spark = _session(Path(folder))
            _create(spark, "iot.readings", "reading_id string, equipment_id string, sensor string, value double,"
                    " read_at timestamp, _kafka_partition int, _kafka_offset bigint, _ingested_at timestamp",
                    "PARTITIONED BY (day(read_at))")  # fmt: skip
            # A day of 40 sensors, evenly, of which the last minutes are still to come.
            step = 84_000 / size
            _read(spark, 0, size, step)
            table = DerivedTable(load_specs().derived["iot.readings_1m"])
            at = [size]

            def change(spark: SparkSession = spark, at: list[int] = at, step: float = step, size: int = size) -> None:
                # By the end of the rounds the time that a day of so many readings leaves isn't over.
                _read(spark, at[0], readings, min(step, 2_000 / (readings * (WARM_UP + ROUNDS))), step * size)
                at[0] += readings

            found[size] = _refreshed(spark, table, change, readings)
            spark.stop()
    typer.echo(json.dumps(found))


def _session(folder: Path) -> SparkSession:
    return local_session(folder, memory="2g")


def _create(spark: SparkSession, name: str, columns: str, partition: str = "") -> None:
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in TABLE_PROPERTIES.items())
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{name.partition('.')[0]}")
    spark.sql(f"CREATE TABLE lake.{name} ({columns}) USING iceberg {partition} TBLPROPERTIES ({properties})")


def _read(spark: SparkSession, start: int, count: int, step: float, since: float = 0.0) -> None:
    spark.sql(
        f"INSERT INTO lake.iot.readings SELECT string(id), 'e' || id % 10, 's' || id % 4, rand(1) * 100,"
        f" timestamp'2026-03-01 00:00:00' + make_dt_interval(0, 0, 0, {since} + (id - {start}) * {step}), 0, id,"
        f" timestamp'2026-03-01 00:00:00' + make_dt_interval(0, 0, 0, {since} + (id - {start}) * {step} + 2)"
        f" FROM range({start}, {start + count})"
    )


def _shop(spark: SparkSession, size: int) -> None:
    """Five orders, a subscription, ten usage events and five clicks a customer."""
    moment = "timestamp'2026-03-01 00:00:00' + make_dt_interval(0, 0, 0, id % 80000)"
    for name, columns, rows, count in (
        ("shop.customers", "customer_id bigint, full_name string, email string, tier string, newsletter boolean,"
         " updated_at timestamp", f"id, 'Name ' || id, id || '@b', 'gold', true, {moment}", size),
        ("shop.orders", "order_id bigint, customer_id bigint, status string, total decimal(14,2), ship_to string,"
         " placed_at timestamp", f"id, id % {size}, 'paid', 10, '{{}}', {moment}", 5 * size),
        ("shop.subscriptions", "subscription_id bigint, customer_id bigint, plan string, monthly decimal(10,2),"
         " active boolean", "id, id, 'pro', 9, true", size),
        ("shop.usage_events", "subscription_id bigint, seconds double, occurred_at timestamp",
         f"id % {size}, 1.5, {moment}", 10 * size),
        ("events.clicks", "event_id string, anonymous_id string, customer_id bigint, occurred_at timestamp",
         f"string(id), 'a', id % {size}, {moment}", 5 * size),
    ):  # fmt: skip
        _create(spark, name, columns)
        spark.sql(f"INSERT INTO lake.{name} SELECT {rows} FROM range({count})")


def _refreshed(spark: SparkSession, table: DerivedTable, change: Callable[[], None], changes: int) -> dict[str, Any]:
    """Return what the first fill, and a refresh after so many changes, took: medians."""
    session, me = spark.newSession(), psutil.Process()
    (jvm,) = [child for child in me.children(recursive=True) if child.name() == "java"]

    def timed() -> tuple[float, float]:
        before, began = sum(jvm.cpu_times()[:2]) + sum(me.cpu_times()[:2]), time.monotonic()
        table.bring(session, 1)
        return time.monotonic() - began, sum(jvm.cpu_times()[:2]) + sum(me.cpu_times()[:2]) - before

    first, samples = timed(), []
    for number in range(WARM_UP + ROUNDS):
        change()
        if number >= WARM_UP:
            samples.append(timed())
        else:
            timed()
    seconds, cpu = (statistics.median(each) for each in zip(*samples, strict=True))
    return {
        "first fill s": round(first[0], 2), "refresh s": round(seconds, 2), "refresh CPU-s": round(cpu, 2),
        "CPU-s a million": round(cpu / changes * 1e6), "changes a second": round(changes / seconds),
    }  # fmt: skip


if __name__ == "__main__":
    app(prog_name="python -m tests.bench.beside")
