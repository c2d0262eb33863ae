"""Gear: how the mirror's JVMs compile. A compiler that optimises earns its time only where the same code runs long: on
a backlog, and not on the small batches that come after it. See infra/decisions/041-two-gears.md.
"""

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from pipelines.errors import RetryBatch
from pipelines.kafka import ANSWER_SECONDS, EARLIEST, LATEST, ask, client_config, list_offsets
from pipelines.planned import OffsetLog
from pipelines.read import topic_pattern
from pipelines.settings import MirrorSettings

# So many full batches pay for starting once more.
BATCHES = 2
QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
# Both compilers, but the optimising one only for what runs a hundred thousand times.
BOTH_COMPILERS = (
    "-XX:Tier4InvocationThreshold=100000 -XX:Tier4MinInvocationThreshold=20000"
    " -XX:Tier4CompileThreshold=200000 -XX:Tier4BackEdgeThreshold=400000"
)


@dataclass(frozen=True)
class Gear:
    """``java_options``: of the driver and its executors; ``backlog``: offsets between where the stream goes on and the
    end; ``high``: whether the options are those for a backlog, and shall be changed once there is none.
    """

    java_options: str
    backlog: int
    high: bool


def choose(settings: MirrorSettings) -> Gear:
    """By how far the mirror is behind; one gear only where the quick compiler isn't asked for. Raises RetryBatch where
    Kafka doesn't answer.
    """
    backlog, options = _backlog(settings), settings.spark_java_options
    if QUICK_COMPILER in options and backlog > BATCHES * settings.max_offsets_per_trigger:
        return Gear(options.replace(QUICK_COMPILER, BOTH_COMPILERS), backlog, high=True)
    return Gear(options, backlog, high=False)


def begin_again(environment: Mapping[str, str]) -> NoReturn:
    """Become the same process anew, as it was started but in this environment."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, sys.orig_argv, dict(environment))  # noqa: S606 (it is what runs already)


def _backlog(settings: MirrorSettings) -> int:
    admin = AdminClient(client_config(settings.kafka_bootstrap))
    pattern, reached = re.compile(topic_pattern(settings)), OffsetLog(settings.checkpoint).next()
    try:
        topics = ask(lambda: admin.list_topics(timeout=ANSWER_SECONDS).topics)
        keys = [(name, p) for name, topic in topics.items() if pattern.search(name) for p in topic.partitions]
        first, last = ask(lambda: list_offsets(admin, keys, EARLIEST)), ask(lambda: list_offsets(admin, keys, LATEST))
    except KafkaException as error:
        raise RetryBatch(f"Kafka doesn't answer at {settings.kafka_bootstrap}: {error}") from error
    return sum(max(0, last[key] - max(first[key], reached.get(key[0], {}).get(key[1], 0))) for key in keys)
