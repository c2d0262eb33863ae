"""Waits for what a service is made from, where the stack is started while parts of it are still being installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from infra.toolchain import installer
from infra.toolchain.components import COMPONENTS, IMAGES
from infra.toolchain.layout import Layout
from services.runner.compose_file import Service
from services.runner.errors import RunnerError


class Installing(Protocol):
    """Is asked for each service, from any thread."""

    def wait_for(self, service: Service, pause: Callable[[], None], tell: Callable[[str], None]) -> None:
        """Return when the service can be started; raise `RunnerError` if it can't be."""


class Installed:
    """Everything is there."""

    def wait_for(self, service: Service, pause: Callable[[], None], tell: Callable[[str], None]) -> None:
        """Return at once."""


class BeingInstalled:
    """The installer is at work beside us (`python3 -m infra.toolchain install --then …`)."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def wait_for(self, service: Service, pause: Callable[[], None], tell: Callable[[str], None]) -> None:
        """See `Installing`. ``pause`` waits a little; ``tell`` is told once what is waited for."""
        told: list[str] = []
        while True:
            at_work = installer.at_work(self._layout)
            # In this order: what is missing now, while nobody is at work any more, won't come.
            missing = self._missing(service)
            if not missing:
                return
            if not at_work:
                raise RunnerError(
                    f"{service.name}: {' and '.join(missing)} could not be installed",
                    "see why below, then make up: what is done is kept",
                )
            if missing != told:
                tell(f"waits for {' and '.join(missing)}")
                told = missing
            pause()

    def _missing(self, service: Service) -> list[str]:
        needs = IMAGES.get(service.image_target, ())
        missing = installer.outdated(self._layout, installer.wanted(needs))
        return [COMPONENTS[name].title for name in missing if name in needs]
