"""Being asked to stop, by SIGTERM or SIGINT."""

import signal
from threading import Event
from types import FrameType

from structlog.stdlib import BoundLogger

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def stop_on_signals(log: BoundLogger, *events: Event) -> None:
    """Set ``events``, in this order, once the process is asked to stop, and say so. Only in the main thread."""

    def ask_to_stop(number: int, _: FrameType | None) -> None:
        log.info("stopping", signal=signal.Signals(number).name)
        for event in events:
            event.set()

    for number in SIGNALS:
        signal.signal(number, ask_to_stop)
