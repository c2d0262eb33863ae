"""The verifier's settings."""

from datetime import timedelta
from pathlib import Path

from pydantic import Field

from services.stack.endpoints import StackSettings
from services.stack.settings import CHECKOUT


class VerifierSettings(StackSettings):
    """What bounds the load that the verifier is to source and lake.

    ``verifier_chunk_rows``: rows compared at one position. ``verifier_rows_per_second`` and ``verifier_share``: the
    most it reads, and the most of the time that it works. ``verifier_pause_seconds``: from the end of a table's round
    to the beginning of its next one. ``verifier_again_seconds``: after which a difference is looked at again.
    ``reread_seconds``: what reading a table again may take.
    """

    verifier_chunk_rows: int = Field(default=20_000, gt=0)
    verifier_rows_per_second: float = Field(default=2_000, gt=0)
    verifier_share: float = Field(default=0.1, gt=0, le=1)
    verifier_pause_seconds: float = Field(default=600, ge=0)
    verifier_again_seconds: float = Field(default=30, ge=0)
    reread_seconds: float = Field(default=6 * 60 * 60, gt=0)
    state_dir: Path = CHECKOUT / ".lakehouse/data/verifier"

    @property
    def pause(self) -> timedelta:
        """The time between two rounds of a table."""
        return timedelta(seconds=self.verifier_pause_seconds)

    @property
    def again(self) -> timedelta:
        """The time between two looks at a difference."""
        return timedelta(seconds=self.verifier_again_seconds)

    def rest(self, rows: int, seconds: float) -> float:
        """Return seconds to rest after a look that took ``seconds`` and read ``rows``, by both bounds."""
        return max(rows / self.verifier_rows_per_second - seconds, seconds / self.verifier_share - seconds)
