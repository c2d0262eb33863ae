"""`.env` of a place to which a lakehouse is restored: its ports and hosts are the place's, all else is the backup's."""

import re
from pathlib import Path

from services.operations.backup.contents import SETTINGS, Backup
from services.operations.backup.errors import CannotRestore

# What a place has of its own.
_OF_THE_PLACE = re.compile(r"^([A-Z_]+_(PORT|HEAP|MEMORY|CORES)|ALERT_WEBHOOK)$")
KEPT = ".env.before-restore"
# Is there once a stack was started here, until `make clean`.
STARTED = ".lakehouse/run/runner"


def merged(saved: str, here: str) -> str:
    """Return the text of `.env`: the saved one, with what ``here`` has of the place's own."""
    own = {name: line for line in here.splitlines() if (name := _name(line)) and _OF_THE_PLACE.match(name)}
    return "".join(f"{own.get(_name(line) or '', line)}\n" for line in saved.splitlines())


def write_settings(backup: Backup, checkout: Path) -> None:
    """Write `.env` of a checkout for a restore; what was there is kept as ``.env.before-restore``.

    Raises CannotRestore where a stack with other secrets has state already.
    """
    env_file, saved = checkout / ".env", backup.read(SETTINGS).decode()
    here = env_file.read_text(encoding="utf-8") if env_file.exists() else ""
    text = merged(saved, here)
    if text == here:
        return
    if (checkout / STARTED).exists():
        raise CannotRestore(
            f"the stack of {checkout} was started before, with other secrets. Restore into a checkout without state"
            " (`make clean` deletes it)."
        )
    part = env_file.with_name(".env.part")
    part.touch(mode=0o600)
    part.write_text(text, encoding="utf-8")
    if here:
        env_file.rename(env_file.with_name(KEPT))
    part.rename(env_file)


def _name(line: str) -> str | None:
    name, sign, _ = line.partition("=")
    return name.strip() if sign and not line.lstrip().startswith("#") else None
