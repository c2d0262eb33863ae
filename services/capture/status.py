"""What `make status` and the command line show of capture."""

from pydantic import BaseModel, ConfigDict

from pipelines.sources.base.capture import Reread, SlotState, TableCapture
from pipelines.sources.kinds import source_database
from services.capture import health, large_rows
from services.capture.connect import Connect
from services.capture.continuity import WAL_GROWS
from services.capture.errors import NotReady
from services.capture.health import State
from services.capture.restarts import MAX_RESTARTS
from services.capture.settings import StatusSettings


class CaptureReport(BaseModel):
    """Capture at a glance. Sizes are bytes.

    ``tables`` names every table of the captured schemas and what becomes of it, in the words of
    :class:`~pipelines.sources.base.capture.Mode`, with a reason where it isn't simply keyed.
    ``restarts_used`` is None where what the service last said isn't known. ``changed_without_events``:
    table to why, until its rows are read again and compared.
    """

    model_config = ConfigDict(frozen=True)

    connector: str
    tasks: dict[str, str]
    error: str | None
    next_step: str | None
    warning: str | None
    restarts_used: int | None
    restarts_allowed: int
    slot: str
    confirmed_flush_lsn: str | None
    wal_held_bytes: int | None
    wal_bound_bytes: int | None
    tables: dict[str, str]
    changed_without_events: dict[str, str] = {}

    @property
    def healthy(self) -> bool:
        """Whether changes flow."""
        return self.error is None and self.connector == "RUNNING" and self.slot.startswith("active")


def report(settings: StatusSettings | None = None, seen: health.Health | None = None) -> CaptureReport:
    """Look at the connector and the source now. ``seen``: what the service last said, where the caller knows it.

    Raises NotConfigured; SourceError when the source doesn't answer. A Connect that doesn't answer is reported.
    """
    settings = settings or StatusSettings.load()
    seen = seen or health.read(settings.state_dir)
    connector, tasks, error = _connector(settings)
    with source_database(settings.owner_address).connect() as source:
        slot, tables, rereads = source.slot(), source.captures(), source.open_rereads()
    if large_rows.is_too_large(error) and seen is not None and seen.error is not None:
        error = seen.error
    error = _broken(slot, seen, connector) or error
    return CaptureReport(
        connector=connector,
        tasks=tasks,
        error=error,
        next_step=_next_step(error, seen),
        warning=_warning(slot, settings.slot_wal_warn_mib),
        restarts_used=None if seen is None else seen.restarts,
        restarts_allowed=MAX_RESTARTS,
        slot="missing" if slot is None else f"{'active' if slot.active else 'inactive'}, log {slot.log_status}",
        confirmed_flush_lsn=None if slot is None else slot.confirmed,
        wal_held_bytes=None if slot is None else slot.held_bytes,
        wal_bound_bytes=None if slot is None else slot.bound_bytes,
        tables={table.name: _words(table) for table in tables},
        changed_without_events=_why(rereads),
    )


def _why(rereads: list[Reread]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for reread in rereads:
        if reread.why not in found.setdefault(reread.table, []):
            found[reread.table].append(reread.why)
    return {table: "; ".join(reasons) for table, reasons in found.items()}


def _connector(settings: StatusSettings) -> tuple[str, dict[str, str], str | None]:
    try:
        with Connect(settings.connect_url, timeout=5) as connect:
            state = connect.state(settings.source_name)
    except NotReady as error:
        return "unknown", {}, str(error)
    if state is None:
        return "not registered", {}, "Connect has no such connector"
    tasks = {str(number): _task(task.state, task.error) for number, task in state.tasks.items()}
    return state.connector.state, tasks, state.failed


def _task(state: str, error: str | None) -> str:
    return state if error is None else f"{state}: {error}"


def _broken(slot: SlotState | None, seen: health.Health | None, connector: str) -> str | None:
    """Return why capture has stopped, as the service says.

    Where that can't be read from here, as it looks from outside.
    """
    if seen is not None and seen.state in (State.BROKEN, State.STOPPED, State.STALLED):
        return seen.error
    if slot is not None and slot.log_status == "lost":
        return "the replication slot fell too far behind, and the log it needs is gone"
    return "the connector was stopped" if connector == "STOPPED" else None


def _next_step(error: str | None, seen: health.Health | None) -> str | None:
    if error is None:
        return None
    if seen is not None and seen.state is State.GAVE_UP:
        return "capture gave up: see `make logs s=connect`, mend the cause, then `make kill s=capture`"
    if seen is not None and seen.state is State.BROKEN:
        return "`lakehouse resync --all`, once you have read the page that is named"
    return "see `make logs s=capture` and `make logs s=connect`"


def _warning(slot: SlotState | None, beyond_mib: int) -> str | None:
    if slot is None or slot.held_bytes <= beyond_mib * 1024**2:
        return None
    waits = "" if slot.oldest_transaction is None else f"; the transaction of {slot.oldest_transaction}"
    return f"the slot holds back more than {beyond_mib:,} MiB of the source's log{waits}: see {WAL_GROWS}"


def _words(table: TableCapture) -> str:
    said = "; ".join(filter(None, (table.reason, table.without)))
    return f"{table.mode.value}: {said}" if said else table.mode.value
