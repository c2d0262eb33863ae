"""`python -m services.verifier.idle`: what the service is between two rounds, without the libraries that it reads with.

The same process, by exec: its memory is given back, some 150 MB, and its supervisor sees no restart. It rests no longer
once a table has changed without events.
"""

import os
import sys
import time
from pathlib import Path

from pipelines.log import json_log
from pipelines.metrics.meter import Meter
from pipelines.metrics.serve import serve
from pipelines.sources.base.database import SourceAddress
from pipelines.sources.base.errors import SourceError
from pipelines.sources.kinds import rereads_wait
from services.stack.endpoints import StackSettings
from services.stack.stopping import Stop

LOOK_SECONDS = 5.0


def main() -> None:
    """Wait the seconds given, saying that the service is alive; then become it again. Ends on SIGTERM."""
    directory, seconds = Path(sys.argv[1]), float(sys.argv[2])
    stop, ends = Stop(), time.monotonic() + seconds
    stop.on_signals()
    serve(Meter("verifier"), json_log())
    address = StackSettings.load().source_address
    while (left := ends - time.monotonic()) > 0 and not stop.asked and not _waits(address):
        (directory / "alive").touch()
        stop.wait(min(left, LOOK_SECONDS))
    if not stop.asked:
        os.execv(sys.executable, [sys.executable, "-m", "services.verifier"])  # noqa: S606


def _waits(address: SourceAddress) -> bool:
    try:
        return rereads_wait(address)
    except SourceError:
        # It is looked again, and by then said by whoever looks.
        return False


if __name__ == "__main__":
    main()
