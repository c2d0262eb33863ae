"""How far the verifier has come, in its own directory: a restart goes on where it was."""

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from services.stack.state_files import write_whole
from services.verify.rounds import TableState

PROGRESS, ALIVE = "progress.json", "alive"
_STATES = TypeAdapter(dict[str, TableState])


def write(directory: Path, states: dict[str, TableState]) -> None:
    """Replace the file at once, so that nobody reads half of it."""
    write_whole(directory / PROGRESS, _STATES.dump_json(states).decode())


def read(directory: Path) -> dict[str, TableState] | None:
    """Return what was last written; None: nothing, or by a release that wrote it otherwise."""
    try:
        return _STATES.validate_json((directory / PROGRESS).read_bytes())
    except (OSError, ValidationError):
        return None


def touch(directory: Path) -> None:
    """Say that the service is alive."""
    (directory / ALIVE).touch()
