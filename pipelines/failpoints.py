"""Failpoints: named places in the mirror at which a test, or a person, can have it killed, fail or wait.

A failpoint is armed by a file of its name in the folder that the process looks in, which holds the action. It fires
once: the file is gone before the action, so the process that is started next passes. Unless a process was told where to
look, a failpoint is a comparison with None.
"""

import os
import signal
import time
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, get_args

from pipelines.errors import RetryBatch

Action = Literal["kill", "error", "pause"]
Name = Literal[
    "before-batch", "before-letters", "between-letters", "after-letters", "before-alter", "before-backfill",
    "after-backfill", "amid-rekey", "before-merge", "after-merge", "before-checkpoint",
    "before-compaction", "after-compaction", "before-expiry", "after-expiry",
]  # fmt: skip

FAILPOINTS: dict[Name, str] = {
    "before-batch": "a batch was planned, and nothing of it has been read",
    "before-letters": "dead letters are known, and neither in their topic nor in their table",
    "between-letters": "dead letters are in their topic and not in their table",
    "after-letters": "dead letters are in both, and the commit that counts them is to come",
    "before-alter": "a table's schema is about to change",
    "before-backfill": "a column was added, and older rows lack its value",
    "after-backfill": "older rows have their value, and the table still says that they lack it",
    "amid-rekey": "a table has the columns of its new key, and not the key",
    "before-merge": "a table's changes are folded, and nothing of them is written",
    "after-merge": "one table is committed, and the others of its batch may not be",
    "before-checkpoint": "every table is committed, and the checkpoint doesn't know",
    "before-compaction": "a table is about to be rewritten",
    "after-compaction": "a table is rewritten, and its older snapshots still have the older files",
    "before-expiry": "a table's history has its total, and old snapshots are about to be given up",
    "after-expiry": "old snapshots are given up, and their files deleted",
}
POLL_SECONDS = 0.05

_folder: Path | None = None


class UnknownFailpoint(ValueError):
    """No failpoint, or no action, is called so."""


def look_in(folder: Path) -> None:
    """Have this process's failpoints armed by files in ``folder``."""
    global _folder  # noqa: PLW0603
    _folder = folder


def failpoint(name: Name) -> None:
    """Do what the failpoint is armed for, if it is: die by SIGKILL, raise RetryBatch, or wait until it is disarmed."""
    if _folder is None:
        return
    armed, reached = _folder / name, _reached(_folder, name)
    try:
        action = armed.read_text(encoding="utf-8")
        # Of several threads that come here at once, one finds it armed.
        armed.rename(reached)
    except FileNotFoundError:
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "error":
        raise RetryBatch(f"failpoint {name}")
    while reached.exists():
        time.sleep(POLL_SECONDS)


def arm(folder: Path, name: str, action: str = "kill") -> None:
    """Have the next process that comes to the failpoint do ``action``. Raises UnknownFailpoint."""
    path = folder / _known(name, get_args(Name), "failpoint")
    _known(action, get_args(Action), "action")
    folder.mkdir(parents=True, exist_ok=True)
    disarm(folder, name)
    fresh = path.with_name(f".{name}.new")
    fresh.write_text(action, encoding="utf-8")
    fresh.rename(path)


def disarm(folder: Path, name: str) -> None:
    """Let processes pass, also one that waits here."""
    for path in (folder / name, _reached(folder, name)):
        path.unlink(missing_ok=True)


def fired(folder: Path, name: str) -> bool:
    """Return whether a process has come here since the failpoint was armed."""
    return _reached(folder, name).exists()


def _reached(folder: Path, name: str) -> Path:
    return folder / f"{name}.reached"


def _known(text: str, known: tuple[str, ...], what: str) -> str:
    if text not in known:
        near = get_close_matches(text, known, n=1, cutoff=0.4)
        guess = f"did you mean {near[0]}? " if near else ""
        raise UnknownFailpoint(f"there is no {what} {text!r}: {guess}There are: {', '.join(known)}.")
    return text
