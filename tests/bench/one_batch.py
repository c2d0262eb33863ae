"""What one batch of one table costs, stage by stage, without servers: `python -m tests.bench.one_batch`.

Time of the machine and CPU of the driver's JVM and of Python, medians over batches, once the first ones have warmed it
up. The table is in a folder, so that catalog and object store aren't part of it.
"""

import json
import random
import statistics
import time
from collections.abc import Callable, Container, Iterator
from functools import partial
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import psutil
import typer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from pipelines.changes.topic_batch import TopicBatch, TopicOutcome, coalesced
from pipelines.kafka.profile import profile_records
from pipelines.limits import Limits
from pipelines.mirror.jit import QUICK_COMPILER
from pipelines.mirror.table.mirror import TableMirror
from pipelines.specs.layout import Layout
from quality.contract import Column, Contract, Rule
from tests.bench.workloads.wide import PICKS, Distribution
from tests.unit.pipelines.change_events import PLACEHOLDER
from tests.unit.pipelines.harness import Topic, create, delete, update
from tests.unit.pipelines.local import local_session

WARM_UP = 6
CREATES, DELETES = 0.2, 0.05
# For a key that isn't deleted yet.
MOST_TRIES = 10_000
app = typer.Typer(add_completion=False)
Sample = dict[str, float]


@app.command()
def measure(
    changes: Annotated[int, typer.Option(min=1, help="Changes a batch.")] = 50,
    rows: Annotated[int, typer.Option(min=2, help="Keys of the table at first, which are below that.")] = 20_000,
    batches: Annotated[int, typer.Option(min=1, help="Batches measured.")] = 20,
    distribution: Annotated[Distribution, typer.Option(help="Which keys are changed.")] = "uniform",
    partition: Annotated[
        list[str] | None, typer.Option(help="A term of the table's layout, such as bucket(8, id).")
    ] = None,
    promises: Annotated[int, typer.Option(min=0, help="Rules of a contract that every row is asked for.")] = 0,
    protect: Annotated[
        list[str] | None, typer.Option(help="What a contract does to values (hash, …): of name, then of doc.")
    ] = None,
    java_options: Annotated[str, typer.Option(help="As SPARK_JAVA_OPTIONS.")] = QUICK_COMPILER,
    unchanged: Annotated[bool, typer.Option("--unchanged", help="Updates leave out an unchanged TOAST value.")] = False,
    retention: Annotated[bool, typer.Option("--retention", help="Deletes are of the oldest rows.")] = False,
    seed: Annotated[int, typer.Option()] = 1,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Measure batches of a fifth inserts, three quarters updates and some deletes."""
    with TemporaryDirectory() as folder:
        spark = local_session(Path(folder), java_options, "2g")
        # As it is for the batches of a stream.
        spark.conf.set("spark.sql.adaptive.enabled", "false")
        topic = Topic(spark)
        mirror = topic.mirror(
            layout=Layout(partition=tuple(partition or ())), contract=_contract(promises, protect or [])
        )
        _fill(topic, mirror, rows)
        chance = random.Random(seed)
        pick = partial(PICKS[distribution], chance, rows - 1, rows - 1)
        events = _events(chance, rows, pick, partial(next, count(1)) if retention else pick, unchanged)
        samples = _samples(topic, mirror, changes, batches, events)
    names = list(dict.fromkeys(name for sample in samples for name in sample))
    found = {name: round(statistics.median(s.get(name, 0.0) for s in samples), 3) for name in names}
    if as_json:
        told = {"changes": changes, "rows": rows, "batches": batches, "distribution": distribution,
                "partition": partition or [], "promises": promises, "protect": protect or [],
                "unchanged": unchanged, "retention": retention, "seconds": found}  # fmt: skip
        typer.echo(json.dumps(told))
        return
    table = Table("what", "s", title=f"one batch of {changes:,} {distribution} changes, table of {rows:,} rows")
    for name, seconds in found.items():
        table.add_row(name, f"{seconds:.3f}")
    Console().print(table)


def _contract(promises: int, protect: list[Any]) -> Contract | None:
    """Of patterns, lengths and comparisons, in turn; and of what is done to values."""
    conditions = ("name RLIKE '^[a-z]+( [0-9]+)?$'", "length(doc) <= 20", "id >= 0", "name IS NOT NULL")
    rules = (Rule(f"rule {i}", f"({conditions[i % len(conditions)]}) OR id = -{i}") for i in range(promises))
    protected = (Column(name, protection=how) for name, how in zip(("name", "doc"), protect, strict=False))
    columns = (Column("id", key=1), *protected, *map(Column, ("name", "doc")[len(protect) :]))
    return Contract(("public", "t"), "1", "active", columns, tuple(rules)) if promises or protect else None


def _fill(topic: Topic, mirror: TableMirror, rows: int) -> None:
    """The table with keys below ``rows``, of which the mirror has written one. No text is another row's: what is read
    for a batch goes by row groups, which have a certain size.
    """
    topic.apply(mirror, topic.batch([create(1, 0, "name 0", "d" * 20)]), 0)
    topic.spark.sql(
        f"INSERT INTO lake.shop.{topic.table} SELECT id, 'name ' || id, left(md5(string(id)), 20), 0, 0, 1,"
        f" current_timestamp(), 'c' FROM range(1, {rows})"
    )


def _events(
    chance: random.Random, rows: int, pick: Callable[[], int], gone: Callable[[], int], unchanged: bool
) -> Iterator[tuple[Any, ...]]:
    """Changes of a table that has keys below ``rows``."""
    key, doc = rows - 1, PLACEHOLDER if unchanged else "e" * 20
    deleted: set[int] = set()
    for lsn in count(rows + 1):
        what = chance.random()
        if what < CREATES:
            key += 1
            yield create(lsn, key, "new", "d" * 20)
        elif what < CREATES + DELETES:
            deleted.add(old := _one(gone, deleted))
            yield delete(lsn, old)
        else:
            yield update(lsn, _one(pick, deleted), "changed", doc)


def _one(pick: Callable[[], int], deleted: Container[int]) -> int:
    """A key that is there. Raises BadParameter where hardly one is left."""
    key = next((key for key in islice(iter(pick, None), MOST_TRIES) if key not in deleted), None)
    if key is None:
        raise typer.BadParameter("by then all rows that could be changed are deleted: more --rows, or fewer --changes")
    return key


def _samples(
    topic: Topic, mirror: TableMirror, changes: int, batches: int, events: Iterator[tuple[Any, ...]]
) -> list[Sample]:
    session, me = topic.spark.newSession(), psutil.Process()
    (jvm,) = [child for child in me.children(recursive=True) if child.name() == "java"]
    samples = []
    for number in range(1, WARM_UP + batches + 1):
        topic.batch(list(islice(events, changes))).count()
        before = (_cpu(jvm), _cpu(me), time.monotonic())
        stages = _mirror(topic, mirror, session, number)
        after = (_cpu(jvm), _cpu(me), time.monotonic())
        cpu_jvm, cpu_python, passed = (b - a for a, b in zip(before, after, strict=True))
        samples.append({"time": passed, "CPU of the JVM": cpu_jvm, "CPU of Python": cpu_python, **stages})
    return samples[WARM_UP:]


def _mirror(topic: Topic, mirror: TableMirror, session: SparkSession, number: int) -> Sample:
    """As :mod:`pipelines.mirror.batch` does it."""
    raw = topic.batches[-1]
    raw = coalesced(raw, raw.count(), Limits()).persist()
    started = time.monotonic()
    seen = profile_records(raw)[topic.name]
    profiled = time.monotonic() - started
    outcome = TopicOutcome(topic.name, rows=seen.rows)
    planned: dict[int, Any] = {**dict.fromkeys(range(2), (0, 0)), **seen.ranges}
    mirror.mirror(TopicBatch(raw.where(F.col("topic") == topic.name), seen, planned, number, session, outcome))
    raw.unpersist()
    return {"profile": profiled, **{stage: ms / 1000 for stage, ms in outcome.ms.items()}}


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    app(prog_name="python -m tests.bench.one_batch")
