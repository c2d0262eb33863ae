"""What a batch was planned to read: the offset range of every topic's partitions, whether or not they hold a record.

Spark writes a batch's end into the checkpoint's offset log before it runs the batch, and after a crash would take the
same end again, for sinks that know a batch by its number. The records alone don't tell the range: transaction markers
are offsets too, and a topic may have none in a batch.
"""

import json
from pathlib import Path

from pipelines.kafka.ranges import Ranges

TopicOffsets = dict[str, dict[int, int]]


class OffsetLog:
    """The offset log of a streaming query with one Kafka source."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint

    def ranges(self, batch: int) -> dict[str, Ranges]:
        """Topic to partition to first offset and the one after the last, for the batch that is being run.

        A partition that is new in the batch begins at 0: Spark stops the query where it doesn't. Raises OSError or
        ValueError if the log isn't what Spark writes.
        """
        starts = self._offsets(f"offsets/{batch - 1}") if batch else self._offsets("sources/0/0")
        ends = self._offsets(f"offsets/{batch}")
        return {
            topic: {partition: (starts.get(topic, {}).get(partition, 0), end) for partition, end in partitions.items()}
            for topic, partitions in ends.items()
        }

    def next(self) -> TopicOffsets:
        """Where the query would go on: the end of its last finished batch; nothing before its first one."""
        finished = self._finished()
        return self._offsets(f"offsets/{finished}") if finished is not None else {}

    def forget_unfinished(self) -> int | None:
        """Have the query plan its next batch anew, up to what is in the topics by then, instead of a batch that it has
        planned and not finished. Which that was, or None. Only for a query that isn't running, and whose sink goes by
        offsets: here each table's ledger skips what it has.
        """
        finished, forgotten = self._finished(), None
        for path in (self._checkpoint / "offsets").glob("[0-9]*"):
            if finished is None or int(path.name) > finished:
                # Without its checksum a file is read all the same; a checksum without its file is for the next one.
                (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
                path.unlink()
                forgotten = int(path.name)
        return forgotten

    def _finished(self) -> int | None:
        return max((int(path.name) for path in (self._checkpoint / "commits").glob("[0-9]*")), default=None)

    def _offsets(self, name: str) -> TopicOffsets:
        # The source's offset is the last line; version and metadata stand before it.
        content = (self._checkpoint / name).read_text(encoding="utf-8")
        offsets = json.loads(content.splitlines()[-1])
        return {topic: {int(p): int(offset) for p, offset in by.items()} for topic, by in offsets.items()}
