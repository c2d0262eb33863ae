"""Bring one derived table up to date with the tables that it is made of.

Its newest commit says of which snapshots it is. What has changed since tells which keys are affected; their rows are
computed by the query, as of the inputs' newest snapshots, and compared with those that the table has; what differs is
one commit, which says of which snapshots the table is now. So nothing beside the lake has to be kept: after a restart,
a resync of an input or a change of the query the same comparison gives what a table computed anew would have.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from pipelines.checks.audit import AuditBranch, audited_table
from pipelines.derived.affected import Affected, Whole, affected, moved
from pipelines.derived.announce import Announcer
from pipelines.derived.compare import Keys, computed, differing, queried
from pipelines.derived.inputs import Origin, Snapshot, definition, look_up, origin_of, show
from pipelines.derived.outcome import DerivedOutcome
from pipelines.derived.setup import DerivedSetup
from pipelines.derived.windows import WindowRules
from pipelines.derived.write import write
from pipelines.errors import JavaRaised, RetryBatch, StopPipeline, first_line
from pipelines.lake.catalog import Lake
from pipelines.lake.properties import LATE_ROWS
from pipelines.lake.row_delta import Moved
from pipelines.lake.table import LakeTable
from pipelines.ledger.entries import PIPELINE, Ledger
from pipelines.protection.columns import ProtectedColumns
from pipelines.protection.functions import Vault
from pipelines.spark.dataframes import columns_read
from pipelines.spark.origins import column_origins
from pipelines.spark.session import configured
from pipelines.specs.derived import DerivedSpec
from quality.contract import Contract

PIPELINE_NAME = "derived"
# A table whose inputs change without anything for it says at least so often of which snapshots it is: these expire.
SAY_SECONDS = 300.0
# For few keys: planning again between stages, and a second task in each, cost more than they save.
FEW = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}


@dataclass
class DerivedUpkeep:
    """The table as it is, for commits that change no row."""

    table: LakeTable | None
    reached: Ledger

    def commit_state(self, reached: Ledger, batch: int, balanced: bool = False) -> None:
        """Say once more of which snapshots the table is, before the snapshots expire that say so."""
        del reached, batch
        assert self.table is not None
        origin = origin_of(self.table)
        if origin is not None:
            self.table.commit_nothing({PIPELINE: PIPELINE_NAME, **origin.summary()}, tidy=balanced)


class DerivedTable:
    """One derived table. Used by one thread at a time."""

    def __init__(
        self, spec: DerivedSpec, contract: Contract | None = None, vault: Vault | None = None,
        announcer: Announcer | None = None, audit: AuditBranch | None = None,
    ) -> None:  # fmt: skip
        self.spec, self._announcer, self._audit = spec, announcer, audit
        self._protected = ProtectedColumns(contract, vault)
        self._setup, self._definition = DerivedSetup(spec, contract, self._protected), definition(spec)
        self._own: SparkSession | None = None
        # The columns that the query reads, while the inputs have these schemas.
        self._read: tuple[dict[str, tuple[str, int]], frozenset[str]] | None = None
        # Of which snapshots the table is; of which its newest commit said so, and when.
        self._reached: Origin | None = None
        self._said: Origin | None = None
        self._said_at = time.monotonic()

    @property
    def lake_name(self) -> str:
        """``namespace.table`` of the lake."""
        return self.spec.table

    @property
    def source_table(self) -> tuple[str, str]:
        """What its spec is found by."""
        return self.spec.name

    @property
    def positions(self) -> Mapping[int, int]:
        """Nothing: it has no topic."""
        return {}

    @contextmanager
    def between_batches(self, session: SparkSession) -> Iterator[DerivedUpkeep]:
        """Give the table as it is now."""
        yield DerivedUpkeep(Lake(session).table(*self.spec.name), Ledger())

    def bring(self, session: SparkSession, number: int) -> DerivedOutcome:
        """Bring the table up to date. Raises RetryBatch, or StopPipeline where a person must act."""
        del number
        outcome = DerivedOutcome()
        self._own = self._own or session.newSession()
        try:
            lake = Lake(self._own)
            table = self._refresh(self._own, lake, outcome)
            if self._announcer is not None and table is not None and table.snapshot_id is not None:
                outcome.announced = self._announcer.announce(self._own, table)
        except Moved as error:
            self._reached = None
            raise RetryBatch(str(error)) from error
        except (AnalysisException, ParseException) as error:
            self._reached = None
            raise StopPipeline(f"{self.spec.table}: a query of its spec can't be run: {first_line(error)}") from error
        except BaseException:
            # The commit may have been done all the same: the table tells.
            self._reached = None
            raise
        return outcome

    def _refresh(self, session: SparkSession, lake: Lake, outcome: DerivedOutcome) -> LakeTable | None:
        inputs, table = look_up(lake, self.spec), lake.table(*self.spec.name)
        now = Origin(self._definition, {alias: Snapshot.of(each) for alias, each in inputs.items()})
        known = self._known(table)
        if known == now:
            return table
        windows = WindowRules.of(self.spec, inputs)
        final = windows is not None and windows.window.emit == "final"
        marks: tuple[int | None, int | None] = (None, None)
        if windows is not None and final:
            marks = self._watermarks(session, windows, inputs, known, now)
        with configured(session, FEW):
            keys, found = self._affected(session, inputs, known, now, windows, marks, outcome)
        outcome.late = found.late
        if found.since is not None:
            outcome.oldest = datetime.fromtimestamp(found.since / 1000, UTC)
        if keys.rows is not None and not keys.rows.num_rows:
            self._note(table, now, found.late, known)
            return table
        only = {} if windows is None else {windows.window.input: windows.counted(marks[1])}
        if windows is not None and keys.rows is not None:
            only[windows.window.input] += f" AND {windows.near(keys.rows)}"
        show(session, inputs, now.snapshots, only)
        made = computed(session, self.spec, self._protected)
        table = self._setup.ready(lake, table, made, outcome)
        with configured(session, FEW if outcome.how == "keys" else {}):
            self._write(session, table, made.rows, keys, now, found.late, outcome)
        if outcome.how in ("first", "whole"):
            self._setup.tell_origins(table, column_origins(made.plain))
            self._setup.tidy(table, made, outcome)
        return table

    def _known(self, table: LakeTable | None) -> Origin | None:
        """Return of which snapshots the table is."""
        said = origin_of(table)
        if self._reached is None or said != self._said:
            self._reached = self._said = said
        return self._reached

    def _watermarks(
        self, session: SparkSession, windows: WindowRules, inputs: Mapping[str, LakeTable], known: Origin | None,
        now: Origin,
    ) -> tuple[int | None, int | None]:  # fmt: skip
        """Return the watermarks of the windows' input as of both origins."""
        alias = windows.window.input
        found: list[int | None] = []
        for origin in (known, now):
            at = None if origin is None else origin.snapshots.get(alias)
            if at is None or at.snapshot is None or (origin is known and at.uuid != now.snapshots[alias].uuid):
                found.append(None)
                continue
            rows = f"{inputs[alias].sql_name} VERSION AS OF {at.snapshot}"
            try:
                found.append(windows.watermark(session, rows))
            except (AnalysisException, JavaRaised):
                # It has expired: all of the table is computed.
                found.append(None)
        return found[0], found[1]

    def _affected(
        self, session: SparkSession, inputs: Mapping[str, LakeTable], known: Origin | None, now: Origin,
        windows: WindowRules | None, marks: tuple[int | None, int | None], outcome: DerivedOutcome,
    ) -> tuple[Keys, Affected]:  # fmt: skip
        """Return the keys whose rows are to be computed, and what is known of the changes."""
        try:
            if known is None:
                outcome.how = "first"
                return Keys(None), Affected(pa.table({}))
            files = moved(known, now, inputs, self.spec)
            if not files:
                return Keys(pa.table({})), Affected(pa.table({}))
            read = self._columns_read(session, inputs, now)
            found = affected(session, self.spec, inputs, known.snapshots, now.snapshots, files, read, windows, marks)
        except Whole as why:
            outcome.how, outcome.why = "whole", str(why)
            return Keys(None), Affected(pa.table({}))
        outcome.how, outcome.keys = ("keys" if found.keys.num_rows else "nothing"), found.keys.num_rows
        return Keys(found.keys), found

    def _columns_read(self, session: SparkSession, inputs: Mapping[str, LakeTable], now: Origin) -> frozenset[str]:
        """Return the columns that the query reads of its inputs, by the names that they have now."""
        schemas = {alias: (each.uuid, each.schema) for alias, each in now.snapshots.items()}
        if self._read is None or self._read[0] != schemas:
            show(session, inputs, now.snapshots, {})
            self._read = (schemas, columns_read(queried(session, self.spec)))
        return self._read[1]

    def _write(
        self, session: SparkSession, table: LakeTable, rows: DataFrame, keys: Keys, now: Origin, late: int,
        outcome: DerivedOutcome,
    ) -> None:  # fmt: skip
        summary = _summary(now, late)
        different = differing(session, self.spec, rows, table, keys)
        before = table.snapshot_id
        with audited_table(self._audit, table) as written_to:
            written = write(session, self.spec, written_to, different, summary)
        outcome.inserted, outcome.updated, outcome.deleted = written.inserted, written.updated, written.deleted
        if table.snapshot_id != before:
            outcome.commits += 1
            self._reached = self._said = now
            self._said_at = time.monotonic()
        else:
            self._note(table, now, late, self._reached)

    def _note(self, table: LakeTable | None, now: Origin, late: int, known: Origin | None) -> None:
        """Note of which snapshots the table is, where no row of it has changed; now and then in a commit."""
        self._reached = now
        anew = known is None or known.definition != now.definition
        if table is not None and (anew or late or time.monotonic() - self._said_at > SAY_SECONDS):
            table.commit_nothing(_summary(now, late))
            table.refresh()
            self._said, self._said_at = now, time.monotonic()


def _summary(now: Origin, late: int) -> dict[str, str]:
    more = {LATE_ROWS: str(late)} if late else {}
    return {PIPELINE: PIPELINE_NAME, **now.summary(), **more}
