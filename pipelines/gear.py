"""Gear: how the mirror's JVMs compile. A compiler that optimises earns its time only where the same code runs long: on
a backlog, and not on the small batches that come after it. See infra/decisions/041-two-gears.md.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from pipelines.history import backlog
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
    options, next_offsets = settings.spark_java_options, OffsetLog(settings.checkpoint).next()
    found = backlog(next_offsets, topic_pattern(settings), settings.kafka_bootstrap)
    if QUICK_COMPILER in options and found > BATCHES * settings.max_offsets_per_trigger:
        return Gear(options.replace(QUICK_COMPILER, BOTH_COMPILERS), found, high=True)
    return Gear(options, found, high=False)


def begin_again(environment: Mapping[str, str]) -> NoReturn:
    """Become the same process anew, as it was started but in this environment."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, sys.orig_argv, dict(environment))  # noqa: S606 (it is what runs already)
