"""A part of the stack that is looked at."""

from typing import Protocol

from pipelines.metrics.meter import Meter
from services.console.house import House


class Part(Protocol):
    """``every``: seconds from the end of a look to the next one, at least."""

    name: str
    every: float

    def look(self, house: House, meter: Meter) -> None:
        """Replace what the house has of this part. Raises what its servers' clients raise."""
