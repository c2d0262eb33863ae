"""`python -m services.verifier.idle`: what the service is between two rounds, without the libraries that it reads with.

The same process, by exec: its memory is given back, some 200 MB, and its supervisor sees no restart.
"""

import os
import sys
import time
from pathlib import Path

from services.stack.stopping import Stop

TOUCH_SECONDS = 30.0


def main() -> None:
    """Wait the seconds given, saying that the service is alive; then become it again. Ends on SIGTERM."""
    directory, seconds = Path(sys.argv[1]), float(sys.argv[2])
    stop, ends = Stop(), time.monotonic() + seconds
    stop.on_signals()
    while (left := ends - time.monotonic()) > 0 and not stop.asked:
        (directory / "alive").touch()
        stop.wait(min(left, TOUCH_SECONDS))
    if not stop.asked:
        os.execv(sys.executable, [sys.executable, "-m", "services.verifier"])  # noqa: S606


if __name__ == "__main__":
    main()
