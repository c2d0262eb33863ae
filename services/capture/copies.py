"""Tables whose rows are yet to be copied: the connector reads them now, and didn't before.

They are noted in a file before the connector is told, so that none is forgotten whenever capture ends.
"""

import json
from pathlib import Path

from services.stack.state_files import write_whole

FILE = "to-copy.json"


def read(state_dir: Path) -> frozenset[str]:
    """Return the tables (``schema.table``). Raises ValueError if the file isn't what was written."""
    try:
        return frozenset(json.loads((state_dir / FILE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return frozenset()


def add(state_dir: Path, tables: frozenset[str]) -> None:
    """Note more of them."""
    write_whole(state_dir / FILE, json.dumps(sorted(read(state_dir) | tables)) + "\n")


def clear(state_dir: Path) -> None:
    """Forget the tables: the copies of all of them have been asked for."""
    (state_dir / FILE).unlink()
