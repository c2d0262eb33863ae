"""The health file: what the service last found, for its health check and for `make status`."""

import os
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from services.stack.state_files import write_whole

FILE = "health.json"


class State(StrEnum):
    """Where the service stands."""

    PREPARING = "preparing the source"
    REGISTERING = "registering the connector"
    STARTING = "starting"
    RUNNING = "running"
    FAILED = "failed, to be restarted"
    STALLED = "stalled"
    GAVE_UP = "gave up"
    BROKEN = "stopped: changes would be missed"
    STOPPED = "stopped by hand"
    ANEW = "beginning anew"
    WAITING = "waiting for a server"


class Health(BaseModel):
    """``restarts``: of the connector's task, since it last ran undisturbed."""

    model_config = ConfigDict(frozen=True)

    healthy: bool
    state: State
    restarts: int = 0
    error: str | None = None
    at: datetime


def write(state_dir: Path, state: State, restarts: int = 0, error: str | None = None) -> None:
    """Replace the file at once, so that nobody reads half of it."""
    now = datetime.now(UTC)
    health = Health(healthy=state is State.RUNNING, state=state, restarts=restarts, error=error, at=now)
    write_whole(state_dir / FILE, health.model_dump_json() + "\n")


def touch(state_dir: Path) -> None:
    """Say that the service is alive, and nothing has changed."""
    os.utime(state_dir / FILE)


def read(state_dir: Path) -> Health | None:
    """Return what the service last wrote, if it can be read from here."""
    try:
        return parsed((state_dir / FILE).read_text(encoding="utf-8"))
    except OSError:
        return None


def parsed(text: str | None) -> Health | None:
    """Return what the service last wrote, from the file's text; None if that isn't it."""
    try:
        return None if text is None else Health.model_validate_json(text)
    except ValidationError:
        return None
