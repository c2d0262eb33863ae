"""The service itself: prepare, register, then watch until asked to stop."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from structlog.stdlib import BoundLogger
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential
from tenacity.nap import sleep_using_event

from pipelines.metrics.meter import Meter
from pipelines.sources.base.capture import LeftOut, LogState
from services.capture import copies, health, large_rows
from services.capture.connect import Connect, ConnectorState
from services.capture.continuity import WAL_GROWS, discontinuity, forget, recall, remember
from services.capture.errors import NotReady
from services.capture.health import State
from services.capture.large_rows import largest_record
from services.capture.restarts import MAX_RESTARTS, Action, Restarts
from services.capture.source import Source
from services.capture.stalls import Flow, Reading
from services.stack.stopping import Stop

TICK_SECONDS = 2.0
KEEP_READY_SECONDS = 5.0
CONTINUITY_SECONDS = 15.0
CONNECT_SECONDS = 180.0
MIB = 1024**2
CAPTURE_STALLS, CONNECTOR_FAILED = "infra/runbooks/capture-stalls.md", "infra/runbooks/connector-failed.md"
STALLED = f"the task runs, but has written nothing for minutes; restarts so far: {{}}; see {CAPTURE_STALLS}"
REFUSED = f"the source doesn't let the connector in: {{}}; the connector tries again by itself; see {CAPTURE_STALLS}"

_NOTHING_LEFT_OUT = LeftOut(frozenset(), frozenset(), frozenset())


@dataclass
class Watcher:
    """Watches one connector, which has the name of its source."""

    source: Source
    connect: Connect
    stop: Stop
    log: BoundLogger
    restarts: Restarts = field(default_factory=Restarts)
    flow: Flow = field(default_factory=Flow)
    reading: Reading = field(default_factory=Reading)
    excluded: LeftOut = _NOTHING_LEFT_OUT
    shown: tuple[State, int, str | None] | None = None
    warned: bool = False
    kept_ready_at: float = field(default_factory=time.monotonic)
    checked_at: float = field(default_factory=time.monotonic)
    told: set[int] = field(default_factory=set)
    too_large: str | None = None
    refusal: str | None = None
    meter: Meter = field(default_factory=lambda: Meter("capture"))

    @property
    def name(self) -> str:
        """The connector's name."""
        return self.source.settings.source_name

    def run(self) -> None:
        """Return when asked to stop. Raises NotReady only while preparing and registering, Refused at any time."""
        self._show(State.PREPARING)
        self.excluded = self.source.prepare(self.stop)
        self.log.info("source prepared", schemas=self.source.settings.schemas, left_out=sorted(self.excluded.tables))
        self._show(State.REGISTERING)
        self._register_with_patience()
        while not self.stop.wait(TICK_SECONDS):
            try:
                self._look()
            except NotReady as error:
                self._show(State.WAITING, str(error))
            if time.monotonic() - self.kept_ready_at >= KEEP_READY_SECONDS:
                self.kept_ready_at = time.monotonic()
                try:
                    self._keep_ready()
                except NotReady as error:
                    self.log.warning("tables not looked after", error=str(error))

    def _register_with_patience(self) -> None:
        Retrying(
            retry=retry_if_exception_type(NotReady), stop=stop_after_delay(CONNECT_SECONDS), reraise=True,
            wait=wait_exponential(0.25, max=5), sleep=sleep_using_event(self.stop.event),
        )(self._register, self.excluded)  # fmt: skip

    def _register(self, excluded: LeftOut) -> None:
        """Make the connector what it ought to be, only if it isn't: a change restarts its task."""
        wanted = self.source.connector_config(excluded)
        current = self.connect.config(self.name)
        if current == wanted:
            self.log.info("connector unchanged", connector=self.name)
            self.excluded = excluded
            return
        before = wanted if current is None else current
        self._note_taken_in(before, wanted)
        self.connect.configure(self.name, wanted)
        changed = sorted(key for key in wanted.keys() | before.keys() if wanted.get(key) != before.get(key))
        self.log.info("connector registered", connector=self.name, new=current is None, changed=changed)
        self.excluded = excluded

    def _note_taken_in(self, before: Mapping[str, str], wanted: Mapping[str, str]) -> None:
        """Note the tables whose rows from before now are in no event, since nobody read them."""
        keyed, others = (self.source.newly_read(tables, before, wanted) for tables in self.source.tables())
        # A table is copied row by row, told by its key.
        if keyed:
            copies.add(self.source.settings.state_dir, keyed)
            self.log.info("tables to be taken in", tables=sorted(keyed))
        if others:
            self.log.warning("rows of tables without a key", tables=sorted(others),
                             next="those from before now are missing until `lakehouse resync TABLE`")  # fmt: skip

    def _look(self) -> None:
        state = self.connect.state(self.name)
        if state is None:
            # Connect has lost its topics, or someone deleted it; registering again is the whole remedy.
            self.log.warning("connector is missing", connector=self.name)
            self._register(self.excluded)
            self._show(State.STARTING)
            return
        if state.stopped:
            self._wait_stopped()
            return
        failed = self._explained(state.failed)
        restarts, action = self.restarts.observe(failed is not None, time.monotonic())
        if action is Action.RESTART:
            # What it failed for may be missing in the source. While that doesn't answer, no restart is used up.
            self.source.prepare(self.stop, seconds=5)
            problem, *_ = self._discontinuity()
            if problem is not None:
                self._end(problem)
                return
            self.log.warning("restarting", connector=self.name, restart=restarts.used, error=failed)
            self.connect.restart(self.name, only_failed=True)
            self.meter.add("lakehouse_capture_restarts_total")
        elif action is Action.GIVE_UP:
            self.log.error(
                "gave up", connector=self.name, restarts=MAX_RESTARTS, error=failed,
                next=f"see {CONNECTOR_FAILED} and `make logs s=connect`, mend the cause, then `make kill s=capture`",
            )  # fmt: skip
        self.restarts = restarts
        where = _where(state, self.restarts)
        if where in (State.RUNNING, State.STARTING) and self.refusal:
            self._show(State.STALLED, REFUSED.format(self.refusal))
        elif where in (State.RUNNING, State.STARTING) and self.flow.restarts:
            self._show(State.STALLED, STALLED.format(self.flow.restarts))
        else:
            self._show(where, failed)

    def _explained(self, failed: str | None) -> str | None:
        """Return why the task has failed; of a row that is too large, which one it is."""
        if failed is None:
            self.too_large = None
        elif large_rows.is_too_large(failed):
            if self.too_large is None:
                most = self.source.settings.largest_row_mib
                # What the log has of a row isn't as long as its record to the byte.
                found = self.source.large_row(largest_record(most) * 9 // 10)
                self.too_large = large_rows.told(found, most)
                self.log.error("row too large", connector=self.name, error=self.too_large)
            return self.too_large
        return failed

    def _wait_stopped(self) -> None:
        """Begin anew, or say why the connector is stopped.

        It was stopped by the service, by hand, or by a resync, which then takes its position away.
        """
        problem, offset, _ = self._discontinuity()
        if self.source.stored_position(offset) is None:
            forget(self.source.settings.state_dir)
            self.log.warning("beginning anew", connector=self.name, slot_dropped=self.source.drop_slot())
            self.connect.resume(self.name)
            self._show(State.ANEW)
        elif problem is not None:
            self._show(State.BROKEN, problem)
        else:
            self._show(State.STOPPED, "the connector was stopped, and can be resumed by Connect's REST interface")

    def _end(self, problem: str) -> None:
        """Stop the connector, which would miss changes, and say why."""
        self.connect.stop(self.name)
        self._show(State.BROKEN, problem)

    def _discontinuity(self) -> tuple[str | None, Mapping[str, Any] | None, LogState]:
        """Return why changes would be missed, what the connector has stored, and what of the source tells it."""
        # Before and after, since it moves on: the log is ahead of what was stored before, and the slot is never moved
        # beyond what is stored after.
        before = self.source.stored_position(self.connect.offset(self.name))
        now = self.source.look()
        offset = self.connect.offset(self.name)
        return (
            discontinuity(now, before, self.source.stored_position(offset), recall(self.source.settings.state_dir)),
            offset,
            now,
        )

    def _keep_ready(self) -> None:
        """Look after the source's tables; register anew when a table is to be left out or taken in."""
        ready = self.source.keep_ready()
        if ready.mended:
            self.log.warning("tables made safe to capture", tables=ready.mended)
        for reread in ready.rereads:
            if reread.id not in self.told:
                self.told.add(reread.id)
                self.log.warning("changed without events", table=reread.table, why=reread.why, remedy=reread.how.value)
        # A signal that the task of before reads is lost, so tables taken in are copied at a later look.
        if self.shown is not None and self.shown[0] is State.RUNNING:
            to_copy = copies.read(self.source.settings.state_dir)
            if to_copy:
                self.source.request_rereads(to_copy)
                copies.clear(self.source.settings.state_dir)
                self.log.info("tables taken in", tables=sorted(to_copy))
        if ready.left_out.differs_from(self.excluded):
            self._register(ready.left_out)
            self.log.info("tables left out", left_out=sorted(ready.left_out.tables))
        due = time.monotonic() - self.checked_at >= CONTINUITY_SECONDS
        if due and self.shown is not None and self.shown[0] in (State.RUNNING, State.STALLED):
            self.checked_at = time.monotonic()
            self._check_continuity()

    def _check_continuity(self) -> None:
        """Make sure that the source is still the one it was, and that its changes flow; leave a new mark in it."""
        problem, offset, now = self._discontinuity()
        if problem is not None:
            self._end(problem)
            return
        # The connector tries for ever, and Connect calls it running all the while.
        self.refusal = self.source.refusal() if now.reader is None else None
        remember(self.source.settings.state_dir, self.source.leave_mark())
        self._check_flow(offset, now)
        self.reading, start_anew = self.reading.observe(offset, time.monotonic())
        if start_anew:
            self.log.warning("rows aren't read again", connector=self.name, restart=self.reading.restarts,
                             next="the task is started anew, and takes it up")  # fmt: skip
            self.connect.restart(self.name, only_failed=False)
        bound = self.source.settings.slot_wal_warn_mib
        if (now.held > bound * MIB) is not self.warned:
            self.warned = not self.warned
            say = self.log.warning if self.warned else self.log.info
            say("log held back", mib=now.held // MIB, warns_beyond_mib=bound, page=WAL_GROWS)

    def _check_flow(self, offset: Mapping[str, Any] | None, now: LogState) -> None:
        patience = self.flow.patience
        flow, start_anew = self.flow.observe(offset, now.written, now.sent, time.monotonic())
        if start_anew:
            behind = now.written - (self.source.stored_position(offset) or 0)
            self.log.error("stalled", connector=self.name, seconds=patience, bytes_behind=behind,
                           restart=flow.restarts, next=f"see {CAPTURE_STALLS}")  # fmt: skip
            self.connect.restart(self.name, only_failed=False)
        elif self.flow.restarts and not flow.restarts:
            self.log.info("flows again", connector=self.name, restarts=self.flow.restarts)
        self.flow = flow
        # A task that hangs doesn't end when it is told to, and would keep the slot.
        if start_anew and now.reader is not None:
            self.source.end_reader(now.reader)

    def _show(self, state: State, error: str | None = None) -> None:
        for each in State:
            self.meter.put("lakehouse_capture_state", float(each is state), state=each.name.lower())
        now = (state, self.restarts.used, error)
        if now == self.shown:
            health.touch(self.source.settings.state_dir)
            return
        self.shown = now
        health.write(self.source.settings.state_dir, state, self.restarts.used, error)
        self.log.info("state", state=state.value, restarts=self.restarts.used, error=error)


def _where(state: ConnectorState, restarts: Restarts) -> State:
    if state.failed is not None:
        return State.GAVE_UP if restarts.gave_up else State.FAILED
    return State.RUNNING if state.running else State.STARTING
