"""The checker's settings."""

from pathlib import Path

from pydantic import Field

from quality import odcs
from services.settings import CHECKOUT
from services.verify.settings import StackSettings


class CheckerSettings(StackSettings):
    """``check_seconds``: between two checks of a table that changes."""

    check_seconds: float = Field(default=900, ge=10)
    contracts: Path = odcs.DIRECTORY
    state_dir: Path = CHECKOUT / ".lakehouse/data/checker"
