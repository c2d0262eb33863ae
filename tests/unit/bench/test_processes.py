"""What a measured process uses."""

import os
import sys
from pathlib import Path

import psutil
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from tests.bench.processes import Measured

HELD_BYTES = 200 << 20
WAITING = Retrying(stop=stop_after_delay(60), wait=wait_fixed(0.05), retry=retry_if_result(lambda said: not said))
# Holds memory, says so, and then has a child that is no program of its own.
FORKS = f"""
import os, time
held = bytearray(os.urandom(1)) * {HELD_BYTES}
if os.fork() == 0:
    time.sleep(600)
print("forked", flush=True)
time.sleep(600)
"""

# Holds as much, and has let go of as much again.
HOLDS = f"""
class Holds {{
    static byte[] held;
    public static void main(String[] none) throws Exception {{
        for (int i = 0; i < 2; i++) held = new byte[{HELD_BYTES}];
        System.out.println("held");
        Thread.sleep(600_000);
    }}
}}
"""


ALLOCATE = "java.nio.ByteBuffer.allocateDirect("


def test_memory_that_a_child_shares_is_counted_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Measured([sys.executable, "-c", FORKS], tmp_path, os.environ, log) as process:
        WAITING(log.read_text)
        (parent,) = (p for p in psutil.Process().children() if FORKS in p.cmdline())
        assert len(parent.children()) == 1
        assert HELD_BYTES < process.resident_bytes() < 2 * HELD_BYTES


def test_of_a_jvm_what_was_let_go_of_does_not_live(tmp_path: Path) -> None:
    log, source = tmp_path / "log", tmp_path / "Holds.java"
    source.write_text(HOLDS)
    with Measured(["java", str(source)], tmp_path, os.environ, log) as process:
        WAITING(log.read_text)
        living = process.living()
        assert HELD_BYTES < living["[B"] <= living.total() < 1.5 * HELD_BYTES
        assert process.native_bytes() < process.resident_bytes() - HELD_BYTES


def test_of_a_jvm_what_it_holds_beside_its_heap_is_told(tmp_path: Path) -> None:
    log, source = tmp_path / "log", tmp_path / "Holds.java"
    source.write_text(HOLDS.replace("byte[] held", "Object held").replace("new byte[", ALLOCATE).replace("];", ");"))
    with Measured(["java", "-Xmx64m", f"-XX:MaxDirectMemorySize={3 * HELD_BYTES}", str(source)], tmp_path, os.environ,
                  log) as process:  # fmt: skip
        WAITING(log.read_text)
        assert HELD_BYTES < process.native_bytes() < process.resident_bytes()
        assert process.living().total() < HELD_BYTES / 2
