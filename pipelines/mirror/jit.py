"""Choose the compilers of the mirror's JVM, where it is its own executor.

A compiler that optimises earns its time only where the same code runs long: on a backlog, and not on the small batches
that come after it. Executors of a cluster always have it. See infra/decisions/041-backlogs-with-both-compilers.md and
051.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from pipelines.kafka.checkpoint import OffsetLog
from pipelines.kafka.topic_reader import backlog
from pipelines.settings import MirrorSettings
from pipelines.spark.session import BOTH_COMPILERS

# So many full batches pay for starting once more.
BATCHES = 2
QUICK_COMPILER = "-XX:TieredStopAtLevel=1"


@dataclass(frozen=True)
class JitChoice:
    """The choice of compilers.

    ``java_options``: of the driver; ``backlog``: offsets between where the stream goes on and the end; ``for_backlog``:
    whether the options are those for a backlog, and shall be changed once there is none.
    """

    java_options: str
    backlog: int
    for_backlog: bool


def choose_jit(settings: MirrorSettings, topic_pattern: str) -> JitChoice:
    """Choose by how far the mirror is behind.

    There is no choice where executors do the work, or where the quick compiler isn't requested. Raises RetryBatch where
    Kafka doesn't answer.
    """
    options, next_offsets = settings.spark_java_options, OffsetLog(settings.checkpoint).next()
    found = backlog(next_offsets, topic_pattern, settings.kafka_bootstrap)
    local = settings.spark_master.startswith("local")
    if local and QUICK_COMPILER in options and found > BATCHES * settings.max_offsets_per_trigger:
        return JitChoice(options.replace(QUICK_COMPILER, BOTH_COMPILERS), found, for_backlog=True)
    return JitChoice(options, found, for_backlog=False)


def restart_process(environment: Mapping[str, str]) -> NoReturn:
    """Become the same process anew, as it was started but in this environment."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, sys.orig_argv, dict(environment))  # noqa: S606 (it is what runs already)
