"""Being asked to stop: SIGTERM and SIGINT end every wait at once."""

import signal
from threading import Event
from types import FrameType


class Stop:
    """Whether this process has been asked to stop."""

    def __init__(self) -> None:
        self.event = Event()

    def on_signals(self) -> None:
        """Listen to SIGTERM and SIGINT. Only in the main thread."""
        signal.signal(signal.SIGTERM, self._asked)
        signal.signal(signal.SIGINT, self._asked)

    @property
    def asked(self) -> bool:
        """Whether it is time to stop."""
        return self.event.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until asked to stop; whether that was it."""
        return self.event.wait(seconds)

    def _asked(self, _number: int, _frame: FrameType | None) -> None:
        self.event.set()
