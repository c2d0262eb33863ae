"""The source of a capture: preparing it and looking after it, with errors that say whether to try again."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential
from tenacity.nap import sleep_using_event

from pipelines.sources.base.capture import LargeRow, LeftOut, LogState, Mode, Readiness, SourceAdministrator
from pipelines.sources.base.errors import SourceError, SourceUnavailable
from pipelines.sources.kinds import source_administrator
from services.capture.continuity import Mark
from services.capture.errors import NotReady, Refused
from services.capture.settings import CaptureSettings
from services.stack.stopping import Stop


@dataclass(frozen=True)
class Source:
    """The source database of these settings."""

    settings: CaptureSettings

    @cached_property
    def administrator(self) -> SourceAdministrator:
        """The database as its administrator sees it."""
        return source_administrator(self.settings.administrator_address, self.settings.connector_options)

    def prepare(self, stop: Stop, seconds: float = 120) -> LeftOut:
        """Make the source ready for capture; repeatable. Returns what the connector must not read.

        Raises NotReady when the source doesn't answer, or its tables stay locked, for so long; Refused when the
        administrator lacks a right.
        """
        retrying = Retrying(
            retry=retry_if_exception_type(SourceUnavailable), stop=stop_after_delay(seconds),
            wait=wait_exponential(0.25, max=5), sleep=sleep_using_event(stop.event), reraise=True,
        )  # fmt: skip
        try:
            return retrying(self.administrator.prepare)
        except SourceUnavailable as error:
            raise NotReady(f"the source isn't ready: {error.sentence}; see `make logs s=source-db`") from None
        except SourceError as error:
            raise Refused(
                f"the source refuses to be prepared: {error.sentence}; "
                "`python -m services.capture sql` prints what an administrator can run instead"
            ) from None

    def keep_ready(self) -> Readiness:
        """Mend what preparing couldn't have seen, and return what of the source there is to act upon.

        Raises NotReady; it is tried again soon.
        """
        with _not_ready("the source can't be looked after"):
            return self.administrator.keep_ready()

    def request_rereads(self, tables: frozenset[str]) -> None:
        """Ask the connector to copy these tables as they are now, beside the stream of changes. Raises NotReady."""
        with _not_ready("the snapshot can't be asked for"):
            self.administrator.request_rereads(tables)

    def tables(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the captured tables: those with a key, and those without. Raises NotReady."""
        with _not_ready("the source can't be looked at"):
            found = self.administrator.captures()
        keyed = frozenset(table.name for table in found if table.mode is Mode.KEYED)
        return keyed, frozenset(table.name for table in found if table.mode is not Mode.LEFT_OUT) - keyed

    def large_row(self, more_than: int) -> LargeRow | None:
        """Return a row of more bytes than that, among those which the connector reads next. Raises NotReady."""
        with _not_ready("the row that is too large can't be looked for"):
            return self.administrator.large_row(more_than)

    def look(self) -> LogState:
        """Return what tells whether the connector can go on. Raises NotReady."""
        with _not_ready("the source can't be looked at"):
            return self.administrator.log_state()

    def leave_mark(self) -> Mark:
        """Leave a mark in the source; it is there when this returns. Raises NotReady."""
        with _not_ready("no mark can be left in the source"):
            system, mark = self.administrator.leave_mark()
        return Mark(system=system, mark=mark)

    def refusal(self) -> str | None:
        """Return why the source doesn't let the connector in; None: it does."""
        return self.administrator.refusal()

    def drop_slot(self) -> bool:
        """Drop the slot, if there is one; whether there was. Raises NotReady while somebody reads it."""
        with _not_ready("the slot can't be dropped"):
            return self.administrator.drop_slot()

    def end_reader(self, reader: int) -> None:
        """End the backend that sends the log to a task which no longer takes it, so that another one can have the slot.

        Raises NotReady.
        """
        with _not_ready("the slot can't be freed"):
            self.administrator.end_reader(reader)

    def connector_config(self, excluded: LeftOut) -> dict[str, str]:
        """Return what the connector is told."""
        return self.administrator.connector_config(excluded)

    def newly_read(self, tables: frozenset[str], before: Mapping[str, str], now: Mapping[str, str]) -> frozenset[str]:
        """Return which of ``tables`` a connector reads by the configuration ``now``, and not by ``before``."""
        return self.administrator.newly_read(tables, before, now)

    def stored_position(self, offset: Mapping[str, Any] | None) -> int | None:
        """Return the log position in what the connector has stored, in its own words; None: there is none."""
        return self.administrator.stored_position(offset)


@contextmanager
def _not_ready(what: str) -> Iterator[None]:
    try:
        yield
    except SourceError as error:
        raise NotReady(f"{what}: {error.sentence}; see `make logs s=source-db`") from None
