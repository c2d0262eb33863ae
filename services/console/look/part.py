"""A part of the stack that is looked at, and what several have in common."""

from typing import Protocol

import httpx
from pyiceberg.catalog import Catalog

from pipelines.metrics.meter import Meter
from services.console.house import House
from services.console.settings import ConsoleSettings
from services.stack.lake import open_catalog

TIMEOUT_SECONDS = 4.0


class Part(Protocol):
    """``every``: seconds from the end of a look to the next one, at least."""

    name: str
    every: float

    def look(self, house: House, meter: Meter) -> None:
        """Replace what the house has of this part. Raises what its servers' clients raise."""


class LakePart:
    """What the parts have in common that are looked at through the lake's catalog."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings

    def catalog(self) -> Catalog:
        """Return the lake's catalog. Raises Unreachable."""
        return open_catalog(self._settings)


class ServerPart:
    """What the parts have in common that are looked at by asking one server, at ``url``."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=TIMEOUT_SECONDS, trust_env=False)
