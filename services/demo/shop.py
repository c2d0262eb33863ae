"""The shop's workload as a person would start it: a process of its own."""

import json
import subprocess
import sys
from typing import Any


def load(scale: float) -> dict[str, Any]:
    """Bulk-load the shop; what `services.shop load --json` says."""
    return _finished(_start("load", "--scale", str(scale)))


class Traffic:
    """Live transactions, in the background until they end by themselves."""

    def __init__(self, rate: int, seconds: int, seed: int) -> None:
        self._process = _start(
            "run", "--rate", str(rate), "--duration", str(seconds), "--connections", "4", "--seed", str(seed)
        )

    @property
    def running(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def summary(self) -> dict[str, Any]:
        """Wait for the end; what `services.shop run --json` says."""
        return _finished(self._process)

    def stop(self) -> None:
        """End it early, if it runs."""
        if self.running:
            self._process.terminate()
            self._process.wait()


def _start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "services.shop", *arguments, "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _finished(process: subprocess.Popen[str]) -> dict[str, Any]:
    output, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"the shop's workload ended with exit code {process.returncode}: see its message above")
    return dict(json.loads(output))
