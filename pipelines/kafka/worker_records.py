"""Read ranges of a topic in the worker that decodes them, for a plan that is made once.

Everything that a worker runs is in this module, and goes to it by value: a worker needs pyarrow and confluent-kafka,
and nothing of ours.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pipelines.kafka.client import ANY_SIZE
from pipelines.kafka.ranges import Ranges, non_empty
from pipelines.spark.prepared import ASKED, leaf

# Raw records (:mod:`pipelines.kafka.read`), with their ``timestamp`` where that is asked for. ``tombstones``: how many
# there are in all ranges, on one of the records, and 0 on the others. Where no record has a value, there is one that
# has an empty one, and -1 less that number.
RECORD_TYPES = (
    "key binary, value binary, partition int, offset long, headers array<struct<key:string,value:binary>>,"
    " tombstones int"
)
_AT_ONCE, _WAIT_SECONDS, _SILENT_WAITS = 1000, 0.02, 1500


def records(session: SparkSession, bootstrap: str, timed: bool = False) -> DataFrame:
    """Return the records that have a value, of the ranges that a run is asked for (see :func:`ask`).

    ``timed``: with their ``timestamp``.
    """
    return leaf(session, _reader(bootstrap, timed), RECORD_TYPES + (", timestamp timestamp" if timed else ""))


def ask(topic: str, ranges: Ranges) -> str:
    """Return what to ask a run for, so that it is of these ranges."""
    return json.dumps([topic, [[p, start, end] for p, (start, end) in sorted(non_empty(ranges).items())]])


def _consume(
    at_once: int, wait: float, silent_waits: int
) -> Callable[[Any, str, list[list[int]]], tuple[list[Any], int]]:
    """Return what reads ranges: the messages that have a value, and how many have none."""

    def consumed(consumer: Any, topic: str, ranges: list[list[int]]) -> tuple[list[Any], int]:
        from confluent_kafka import KafkaError, TopicPartition

        left = {partition: end for partition, _, end in ranges}
        consumer.assign([TopicPartition(topic, partition, start) for partition, start, _ in ranges])
        messages: list[Any] = []
        tombstones = silent = 0
        try:
            while left:
                found = consumer.consume(at_once, wait)
                silent = 0 if found else silent + 1
                if silent > silent_waits:
                    raise RuntimeError(f"no record of {topic} for {silent_waits * wait:.0f} s")
                for message in found:
                    partition, offset, error = message.partition(), message.offset(), message.error()
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        raise RuntimeError(f"{topic}: {error.str()}")
                    end = left.get(partition)
                    if end is None:
                        continue
                    if error is None and offset < end:
                        if message.value() is None:
                            tombstones += 1
                        else:
                            messages.append(message)
                    # An end may be reported past the markers of transactions, which are no records.
                    if offset >= end - (error is None):
                        del left[partition]
        finally:
            consumer.unassign()
        return messages, tombstones

    return consumed


def _reader(bootstrap: str, timed: bool) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    asked_key, consumed = ASKED, _consume(_AT_ONCE, _WAIT_SECONDS, _SILENT_WAITS)
    config: Mapping[str, Any] = {
        "bootstrap.servers": bootstrap, "group.id": "lakehouse.mirror", "enable.auto.commit": False,
        "isolation.level": "read_committed", "enable.partition.eof": True, "auto.offset.reset": "error",
        "fetch.wait.max.ms": 20, "queued.max.messages.kbytes": 16384, "log_level": 0, **ANY_SIZE,
    }  # fmt: skip

    def read(nothing: Iterable[Any]) -> Iterator[Any]:
        for _ in nothing:
            pass
        # A worker imports what is named within.
        import atexit
        import builtins
        import json

        import pyarrow as pa
        from confluent_kafka import Consumer
        from pyspark import TaskContext

        def arrow(columns: list[list[Any]]) -> Any:
            header = pa.struct([("key", pa.string()), ("value", pa.binary())])
            types = [pa.binary(), pa.binary(), pa.int32(), pa.int64(), pa.list_(header), pa.int32()]
            names = ["key", "value", "partition", "offset", "headers", "tombstones"]
            if timed:
                types, names = [*types, pa.timestamp("us", "UTC")], [*names, "timestamp"]
            return pa.RecordBatch.from_arrays([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names)

        context = TaskContext.get()
        assert context is not None
        topic, ranges = json.loads(str(context.getLocalProperty(asked_key)))
        # One a process, which is used again: a new one has to find its brokers first.
        consumer: Any = getattr(builtins, "_lakehouse_consumer", None)
        if consumer is None:
            consumer = Consumer(dict(config))
            atexit.register(consumer.close)
            vars(builtins)["_lakehouse_consumer"] = consumer
        messages, tombstones = consumed(consumer, topic, ranges)
        if not messages:
            yield arrow([[None], [b""], [-1], [-1], [[]], [-1 - tombstones], *([[None]] if timed else [])])
            return
        headers = [[{"key": h[0], "value": h[1]} for h in m.headers() or ()] for m in messages]
        columns = [
            [m.key() for m in messages],
            [m.value() for m in messages],
            [m.partition() for m in messages],
            [m.offset() for m in messages],
            headers,
            [tombstones, *[0] * (len(messages) - 1)],
        ]
        if timed:
            columns.append([m.timestamp()[1] * 1000 for m in messages])
        yield arrow(columns)

    return read
