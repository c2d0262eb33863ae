"""The checker's settings."""

from pathlib import Path

from pydantic import Field

from quality import odcs
from services.stack.endpoints import StackSettings
from services.stack.settings import CHECKOUT


class CheckerSettings(StackSettings):
    """The checker's settings. ``check_seconds``: between two checks of a table that changes."""

    check_seconds: float = Field(default=900, ge=10)
    contracts: Path = odcs.DIRECTORY
    state_dir: Path = CHECKOUT / ".lakehouse/data/checker"
