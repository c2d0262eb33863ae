"""A measured system's process: started, sampled with all that it starts, killed."""

import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

SAMPLE_SECONDS = 0.25
STOP_SECONDS = 90
# What a JVM says of a class: its place, how many objects, their bytes, its name.
OBJECTS = re.compile(r"^ *\d+: +\d+ +(\d+) +(\S+)", re.MULTILINE)
# And where a generation of its heap begins, and where it may end.
HEAP = re.compile(r"\[0x([0-9a-f]+),(?: 0x[0-9a-f]+,)? 0x([0-9a-f]+)\)")


class Measured:
    """A process and its descendants. CPU and memory are of all of them, of those that have ended too."""

    def __init__(
        self, command: Sequence[str], cwd: Path, environment: Mapping[str, str], log: Path, gives_up: Sequence[str] = ()
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log, self._gives_up = log, [text.encode() for text in gives_up]
        self._said = log.stat().st_size if log.exists() else 0
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                command, cwd=cwd, env=dict(environment), stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )
        self.started = time.time()
        self._cpu: dict[tuple[int, float], float] = {}
        self._peak = self._resident = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample_on, daemon=True)
        self._sampler.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether the process itself still runs."""
        return self._process.poll() is None

    @property
    def working(self) -> bool:
        """Whether it runs and hasn't said that it gives up."""
        if not self.running or not self._gives_up:
            return self.running
        with self.log.open("rb") as file:
            file.seek(self._said)
            said = file.read()
            return not any(text in said for text in self._gives_up)

    def cpu_seconds(self) -> float:
        """Used since the start."""
        self._sample()
        with self._lock:
            return sum(self._cpu.values())

    def peak_bytes(self) -> int:
        """The greatest resident memory seen since the start or the last `forget_peak`."""
        self._sample()
        return self._peak

    def resident_bytes(self) -> int:
        """The resident memory now."""
        self._sample()
        return self._resident

    def living(self) -> Counter[str]:
        """What is left in its JVMs after a full collection, which this makes them do: class to bytes of its objects."""
        return sum((_living(process) for process in self._family() if process.name() == "java"), Counter())

    def native_bytes(self) -> int:
        """The resident memory of its JVMs that isn't their heap: code, classes, threads, buffers, and what leaks."""
        return sum(_native(process) for process in self._family() if process.name() == "java")

    def forget_peak(self) -> None:
        """Let the peak begin anew."""
        self._peak = 0

    def stop(self) -> None:
        """SIGTERM, and after a while SIGKILL, to all of them."""
        family = self._family()
        if self.running:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._end(family)

    def kill(self) -> None:
        """SIGKILL to all of them at once."""
        self._end(self._family())

    def tail(self, lines: int = 12) -> str:
        """The end of its log, without the places of a stack trace."""
        said = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join([line[:300] for line in said if not line.startswith("\t")][-lines:])

    def _end(self, family: list[psutil.Process]) -> None:
        for process in family:
            try:
                os.kill(process.pid, 0)
                process.send_signal(signal.SIGKILL)
            except (ProcessLookupError, psutil.NoSuchProcess):
                continue
        psutil.wait_procs(family, STOP_SECONDS)
        self._process.wait(STOP_SECONDS)
        self._ended.set()
        self._sampler.join()

    def _family(self) -> list[psutil.Process]:
        try:
            process = psutil.Process(self._process.pid)
            return [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _sample_on(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        resident, sizes = 0, dict[int, int]()
        with self._lock:
            for process in self._family():
                try:
                    times, memory = process.cpu_times(), process.memory_info()
                    self._cpu[process.pid, process.create_time()] = times.user + times.system
                    sizes[process.pid] = memory.vms
                    # One that has just been forked, and is no program of its own yet, has its parent's memory.
                    if sizes.get(process.ppid()) != memory.vms:
                        resident += memory.rss
                except psutil.NoSuchProcess:
                    continue
            self._resident = resident
            self._peak = max(self._peak, resident)


def _living(jvm: psutil.Process) -> Counter[str]:
    found: Counter[str] = Counter()
    for size, name in OBJECTS.findall(_asked(jvm, "GC.class_histogram")):
        found[name] += int(size)
    return found


def _native(jvm: psutil.Process) -> int:
    heap = [(int(low, 16), int(high, 16)) for low, high in HEAP.findall(_asked(jvm, "GC.heap_info"))]
    assert heap, f"the heap's place isn't known of {jvm}"
    resident = 0
    for mapped in jvm.memory_maps(grouped=False):
        start = int(mapped.addr.partition("-")[0], 16)
        if not any(low <= start < high for low, high in heap):
            resident += mapped.rss
    return resident


def _asked(jvm: psutil.Process, what: str) -> str:
    # By the tool of the JDK that it runs on.
    command = [str(Path(jvm.exe()).with_name("jcmd")), str(jvm.pid), what]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
