"""Running other programs: output to a log file, proxies and certificates left as the caller's environment has them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .errors import CommandFailed

TRY_AGAIN = "Run the same command again: what is done is kept."


def run(
    command: Sequence[str | Path],
    log: Path,
    *,
    attempts: int = 1,
    advice: str = TRY_AGAIN,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a command, appending its output to `log`; raise `CommandFailed` once it has failed `attempts` times."""
    log.parent.mkdir(parents=True, exist_ok=True)
    words = [str(word) for word in command]
    for _ in range(attempts):
        with log.open("a", encoding="utf-8") as file:
            file.write(f"$ {' '.join(words)}\n")
            file.flush()
            try:
                finished = subprocess.run(
                    words,
                    cwd=cwd,
                    env={**os.environ, **(environment or {})},
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    check=False,
                )
            except FileNotFoundError as error:
                raise CommandFailed(f"{words[0]} is not installed", log, f"Install {words[0]}.") from error
        if finished.returncode == 0:
            return
    raise CommandFailed(f"{Path(words[0]).name} ended with code {finished.returncode}", log, advice)


def tail(log: Path, lines: int = 15) -> list[str]:
    """Return the last lines of a log, without empty ones; empty if there is no log."""
    if not log.exists():
        return []
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 64 * 1024))
        text = file.read().decode("utf-8", errors="replace")
    return [line.rstrip() for line in text.splitlines() if line.strip()][-lines:]
