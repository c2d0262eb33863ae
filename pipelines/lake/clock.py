"""The clock of the machine that commits: Iceberg takes no commit of more than a minute before the last one."""

import time
from datetime import UTC, datetime

from pipelines.errors import StopPipeline
from pipelines.lake.table import LakeTable

# Iceberg's own (org.apache.iceberg.TableMetadata), below which machines' clocks may differ.
TOLERANCE_SECONDS = 60


def check_clock(table: LakeTable) -> None:
    """Raise StopPipeline if a commit now would be refused, because the table was last changed in the future.

    Nothing is to be repaired: the table goes on when the clock is right, or the time has come.
    """
    ahead = table.last_changed - time.time()
    if ahead > TOLERANCE_SECONDS:
        raise StopPipeline(
            f"{table.namespace}.{table.name} was last changed at {_utc(table.last_changed)}, {ahead / 60:.0f} minutes"
            f" after what this machine's clock says ({_utc(time.time())}), and Iceberg takes no commit that goes back"
            " in time. Set the clock; if it is right, the table goes on by itself when it has come there."
            " Nothing is lost. See infra/runbooks/clock-wrong.md"
        )


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
