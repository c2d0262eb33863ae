"""Whether the connector can go on where it ended, without missing a change. Pure, and the file of what is remembered.

A position in the log means something only in the history that it was taken from. So capture leaves marks in the source:
random, and each remembered here once it is committed there. A source that doesn't know the last one was restored to an
earlier point, or is another one, whatever its log's positions look like.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from pipelines.sources.base.capture import LogState
from services.stack.state_files import write_whole

FILE = "marks.json"
RESYNC = "Capture has stopped; run `lakehouse resync --all`"
SLOT_LOST, SOURCE_RESTORED = "infra/runbooks/slot-lost.md", "infra/runbooks/source-restored.md"
WAL_GROWS = "infra/runbooks/wal-grows.md"


class Mark(BaseModel):
    """The mark that was left last, and the database cluster it was left in."""

    model_config = ConfigDict(frozen=True)

    system: str
    mark: str


def discontinuity(source: LogState, before: int | None, stored: int | None, last: Mark | None) -> str | None:
    """Return why changes would be missed if the connector went on from the position ``stored``; None: none would.

    ``before``: the position stored before the source was looked at; ``stored``, after. The message ends with what to
    do. A connector without a position begins anew, and misses nothing.
    """
    if stored is None:
        return None
    restored = "the source was restored to an earlier point: "
    reasons = (
        (last is not None and source.system != last.system, SOURCE_RESTORED, "the source is another database cluster"),
        (last is not None and last.mark not in source.marks, SOURCE_RESTORED,
         f"{restored}it doesn't know the mark that capture left last"),
        ((before or 0) > source.written, SOURCE_RESTORED, f"{restored}its log ends before the position read"),
        (not source.has_slot, SLOT_LOST, "the replication slot is gone, and with it the log from the position read on"),
        (source.log_status == "lost", SLOT_LOST,
         "the replication slot fell too far behind, and PostgreSQL gave up the log it needs"),
        (source.confirmed is not None and source.confirmed > stored, SLOT_LOST,
         "the replication slot was moved beyond the position read"),
    )  # fmt: skip
    return next((f"{reason}. {RESYNC} ({page})." for found, page, reason in reasons if found), None)


def recall(state_dir: Path) -> Mark | None:
    """Return the last mark, if there is one that can be read."""
    try:
        return Mark.model_validate_json((state_dir / FILE).read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None


def remember(state_dir: Path, mark: Mark) -> None:
    """Remember a mark that is committed in the source."""
    write_whole(state_dir / FILE, mark.model_dump_json() + "\n")


def forget(state_dir: Path) -> None:
    """Forget the mark: the connector begins anew, whatever the source was."""
    (state_dir / FILE).unlink(missing_ok=True)
