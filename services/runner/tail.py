"""Shows the end of log files, and what is added to them."""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path


def last_lines(log: Path, count: int) -> list[str]:
    """Return the last lines of a file, without the blank ones; nothing if there is no such file."""
    try:
        with log.open(encoding="utf-8", errors="replace") as file:
            return [line.rstrip() for line in deque(filter(str.strip, file), maxlen=count)]
    except FileNotFoundError:
        return []


def tail(logs: Sequence[Path], follow: bool, lines: int) -> int:
    """Print the last lines of logs, with `follow` until Ctrl-C; each line names its log if there are several.

    GNU tail follows files by name, so over rotations. Returns its exit code.
    """
    if not logs:
        print("nothing has been started here yet: make up", file=sys.stderr)
        return 1
    command = ["tail", "-n", str(lines), *(["-F"] if follow else []), "--", *map(str, logs)]
    width = max(len(log.stem) for log in logs)
    name = ""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace"
    ) as process:
        try:
            for line in process.stdout or ():
                if len(logs) > 1 and line.startswith("==> ") and line.endswith(" <==\n"):
                    name = Path(line[4:-5]).stem
                elif len(logs) == 1:
                    print(line, end="", flush=True)
                elif line.strip():
                    print(f"{name:<{width}} | {line}", end="", flush=True)
        except (KeyboardInterrupt, BrokenPipeError):
            process.terminate()
            return 0
        return process.wait()
