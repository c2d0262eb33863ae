"""What a measured process uses."""

import os
import sys
from pathlib import Path

import psutil
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from tests.bench.processes import Measured

HELD_BYTES = 200 << 20
# Holds memory, says so, and then has a child that is no program of its own.
FORKS = f"""
import os, time
held = bytearray(os.urandom(1)) * {HELD_BYTES}
if os.fork() == 0:
    time.sleep(600)
print("forked", flush=True)
time.sleep(600)
"""


def test_memory_that_a_child_shares_is_counted_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Measured([sys.executable, "-c", FORKS], tmp_path, os.environ, log) as process:
        waiting = Retrying(
            stop=stop_after_delay(60), wait=wait_fixed(0.05), retry=retry_if_result(lambda said: not said)
        )
        waiting(log.read_text)
        (parent,) = (p for p in psutil.Process().children() if FORKS in p.cmdline())
        assert len(parent.children()) == 1
        assert HELD_BYTES < process.resident_bytes() < 2 * HELD_BYTES
