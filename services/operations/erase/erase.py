"""Find every copy of a row that its source hasn't got any more, remove it, and say when each is gone.

Every step looks at what is there and removes what it finds, so that the same again goes on where something ended.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import duckdb
from pyarrow.fs import S3FileSystem
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from pipelines.dead_letters.actions import ERASED
from pipelines.dead_letters.store import DEAD_LETTER_TOPIC
from pipelines.lake.names import DEAD_LETTERS as LETTERS
from pipelines.lake.names import NAMESPACE, VERIFICATION
from pipelines.lake.properties import PURGED
from pipelines.maintenance.plan import RequestKind
from pipelines.specs.load import load_specs
from pipelines.specs.upkeep import Upkeep, own_upkeep
from services.operations.dead_letters.letters import Letters
from services.operations.erase import files, letters, published
from services.operations.erase.copy import Copy
from services.operations.erase.errors import CannotErase
from services.operations.erase.files import Stored
from services.operations.erase.letters import Sorted, Sorting
from services.operations.erase.subject import Subject
from services.operations.erase.topics import Topics
from services.operations.maintain.requests import ask
from services.stack.duckdb_session import open_duckdb
from services.stack.endpoints import StackSettings
from services.stack.lake import dead_letters, own_table, pin, tables
from services.stack.object_store import object_store
from services.stack.position import wait_until_visible
from services.stack.progress import OnProgress, Progress, silent
from services.stack.published_datasets import datasets_of, full_name
from services.stack.records import Decoder
from services.stack.scratch import scratch
from services.stack.source import connect
from services.verify import record as verification

T = TypeVar("T")

MEMORY = "1GB"


def subject(catalog: Catalog, settings: StackSettings, name: str, row: str) -> Subject:
    """Return which rows are meant. Raises CannotErase."""
    every = (pin(table) for table in tables(catalog, settings))
    called = [p for p in every if p and name in (p.name, f"{p.namespace}.{p.name}", p.full_name)]
    if not called:
        raise CannotErase(f"no mirrored table is called {name} (`lakehouse table list`).")
    if len(called) > 1:
        raise CannotErase(f"{name} may be {' or '.join(pinned.full_name for pinned in called)}: name it so.")
    return Subject.of(called[0], row)


@dataclass
class Erasure:
    """One row's erasure, with what it takes.

    ``timeout``: seconds to wait, for the lake and for each table's purge. ``doubtful``: letters of the table's topic
    that nobody can read are taken for some about the row.
    """

    settings: StackSettings
    catalog: Catalog
    subject: Subject
    duckdb: duckdb.DuckDBPyConnection
    timeout: float = 600.0
    doubtful: bool = False
    on_progress: OnProgress = silent

    def __post_init__(self) -> None:
        self._store: S3FileSystem = object_store(self.settings)
        self._topics = Topics(self.settings.kafka_bootstrap)
        decoder = Decoder(self.settings.schema_registry_url)
        self._sorting = Sorting(self.subject, decoder, self.settings.protection_keys, self.doubtful)
        self._specs = load_specs()

    def look(self) -> list[Copy]:
        """Return where there are copies, and remove nothing. Raises what reaching the servers raises."""
        pinned = self.subject.table
        with connect(self.settings) as source:
            there = self.subject.in_source(source)
        table = dead_letters(self.catalog)
        found = self._sorted([] if table is None else files.below(self._store, table, "data"))
        records = sum(end - start for start, end in self._topics.held(pinned.topic).values())
        holding, in_topic = len(self._holding()), len(list(self._letters_in_topic()))
        return [
            Copy(pinned.source_name, "rows", there, there == 0),
            Copy(f"topic {pinned.topic}", "records, of all rows", records, records == 0),
            Copy(f"topic {DEAD_LETTER_TOPIC}", "letters", in_topic, in_topic == 0),
            Copy(f"lake.{NAMESPACE}.{LETTERS}", "letters", len(found.about), not found.about, None, _unreadable(found)),
            Copy(pinned.full_name, "data files", holding, holding == 0),
            *(Copy(full_name(dataset), "datasets", 1, False) for dataset in self._published()),
        ]

    def run(self) -> Iterator[Copy]:
        """Remove the copies, one place after the other.

        Raises CannotErase where the row is still there, or somebody is to read it yet; and what reaching the servers
        raises.
        """
        self._check_gone()
        yield self._topic()
        yield from self._dead_letters()
        yield self._table()
        purged = self._fresh().properties.get(PURGED)
        for dataset in self._published():
            yield published.made_anew(dataset, purged, self._store, self.timeout, self.on_progress)
        yield self._verification()

    def _check_gone(self) -> None:
        pinned = self.subject.table
        with connect(self.settings) as source:
            there = self.subject.in_source(source)
        if there:
            raise CannotErase(
                f"{pinned.source_name} still has {_rows(there)}: delete it there first. What the source has the lake"
                " has, and would have again."
            )
        reached = wait_until_visible(self.settings, self.timeout, self.on_progress, but_held=True)
        if pinned.topic in reached.held:
            raise CannotErase(
                f"{pinned.full_name} is held, so the lake doesn't follow its source: {reached.held[pinned.topic]}"
            )
        found = self._fresh().scan(self.subject.in_lake(), selected_fields=tuple(self.subject.values)).to_arrow()
        if found.num_rows:
            raise CannotErase(
                f"{pinned.full_name} still has {_rows(found.num_rows)}, though its source hasn't. If its deletion waits"
                f" behind a dead letter (`lakehouse dlq list --topic {pinned.topic}`), replay or discard that; else"
                f" `lakehouse resync {pinned.source_name}` removes what only the lake has. Then run this again."
            )

    def _topic(self) -> Copy:
        """Return the records that the table's commits have."""
        topic = self.subject.table.topic
        now = pin(self._fresh())
        assert now is not None
        ends = now.state.positions
        self._topics.check_read(topic, ends)
        self.on_progress(Progress(topic, "deleting records"))
        gone = self._topics.delete(topic, ends)
        return self._copy_of_topic(topic, gone, "those of other rows up to here among them")

    def _copy_of_topic(self, topic: str, gone: int, detail: str) -> Copy:
        if not gone:
            return Copy(f"topic {topic}", "records", 0, True)
        seconds = self._topics.disk_seconds(topic)
        until = None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)
        closed = "has closed their file" if until else "begins another file"
        said = f"{detail}; nobody can read them, and they leave the broker's disk when it {closed}"
        return Copy(f"topic {topic}", "records", gone, True, until, said)

    def _dead_letters(self) -> Iterator[Copy]:
        yield self._letters_topic()
        table = dead_letters(self.catalog)
        if table is None:
            return
        name = f"lake.{NAMESPACE}.{LETTERS}"
        before = self._sorted(files.below(self._store, table, "data"))
        now = self._sorting.sort(letters.current(table, self.subject.table.topic))
        if now.about:
            # The ledger counts them all the same.
            Letters(self.catalog).close(letters.named(now.about), ERASED, None)
            letters.remove(table, now.about)
        if not before.about:
            yield Copy(name, "letters", 0, not before.unreadable, detail=_unreadable(before))
            return
        self._purge(f"{NAMESPACE}.{LETTERS}")
        table = table.refresh()
        left = [file for file in files.below(self._store, table, "data") if self._sorted([file]).about]
        yield self._copy(name, "letters", len(before.about), left, own_upkeep(self._specs.default_upkeep),
                         _unreadable(before))  # fmt: skip

    def _letters_topic(self) -> Copy:
        last = {partition: offset + 1 for partition, offset in self._letters_in_topic()}
        gone = self._topics.delete(DEAD_LETTER_TOPIC, last) if last else 0
        return self._copy_of_topic(
            DEAD_LETTER_TOPIC, gone, f"older letters among them, which lake.{NAMESPACE}.{LETTERS} has"
        )

    def _letters_in_topic(self) -> Iterator[tuple[int, int]]:
        """Return partition and offset of the letters about the row."""
        for partition, offset, letter in letters.in_topic(
            self.settings.kafka_bootstrap, self._topics.held(DEAD_LETTER_TOPIC)
        ):
            if self._sorting.sort([letter]).about:
                yield partition, offset

    def _table(self) -> Copy:
        pinned = self.subject.table
        name = f"{pinned.namespace}.{pinned.name}"
        before = self._holding()
        if before or files.count_gone_files(self._fresh()):
            self._purge(name)
        return self._copy(pinned.full_name, "data files", len(before), self._holding(),
                          self._specs.upkeep(pinned.schema, pinned.source_table))  # fmt: skip

    def _copy(
        self, where: str, what: str, found: int, left: list[Stored], upkeep: Upkeep, detail: str | None = None
    ) -> Copy:
        """``left``: files that still have the row. No snapshot knows them; upkeep deletes them once they are old."""
        if not left:
            return Copy(where, what, found, detail is None, None, detail)
        age = timedelta(days=upkeep.orphans_days, hours=upkeep.orphans_every_hours)
        said = f"{len(left)} files that a failed write left have it, until upkeep deletes them"
        return Copy(
            where, what, found, False, max(file.since for file in left) + age, "; ".join(filter(None, (detail, said)))
        )

    def _published(self) -> list[Table]:
        return datasets_of(self.catalog, self.subject.table.namespace, self.subject.table.name)

    def _verification(self) -> Copy:
        """Return keys of rows that differed."""
        name, table = f"lake.{NAMESPACE}.{VERIFICATION}", own_table(self.catalog, VERIFICATION)
        if table is None:
            return Copy(name, "snapshots", 0, True)
        gone = verification.forget_older(table)
        pinned = self.subject.table
        states = verification.read(self.catalog)
        if any(state.findings for state in states if state.table == pinned.source_name):
            detail = "rows of the table differ, whose keys it names until they don't: `lakehouse verify --continuous`"
            return Copy(name, "snapshots", gone, False, None, detail)
        return Copy(name, "snapshots", gone, True)

    def _fresh(self) -> Table:
        return self.subject.table.table.refresh()

    def _holding(self) -> list[Stored]:
        """Files may go while they are read: upkeep deletes what it has replaced."""
        return _again(
            lambda: files.holding(
                self.duckdb, self.subject, files.below(self._store, self.subject.table.table, "data"), self.on_progress
            )
        )

    def _sorted(self, among: list[Stored]) -> Sorted:
        return _again(lambda: self._sorting.sort(letters.kept(self.duckdb, among, self.subject.table.topic)))

    def _purge(self, name: str) -> None:
        failed = [
            answer
            for answer in ask(self.catalog, [name], RequestKind.PURGE, self.timeout, self.on_progress)
            if answer.error
        ]
        if failed:
            raise CannotErase(f"{name} couldn't be purged: {failed[0].error}. Run this again; it goes on there.")


@contextmanager
def erasure(
    settings: StackSettings, catalog: Catalog, found: Subject, timeout: float, doubtful: bool = False,
    on_progress: OnProgress = silent,
) -> Iterator[Erasure]:  # fmt: skip
    """Open an erasure, with a DuckDB of its own."""
    with scratch() as directory, closing(open_duckdb(settings, directory, MEMORY)) as connection:
        yield Erasure(settings, catalog, found, connection, timeout, doubtful, on_progress)


def fingerprint(found: Subject, settings: StackSettings) -> str:
    """Return what the audit trail says of whose copies were erased.

    The same for the same row, and nothing that names it.
    """
    keys = settings.protection_keys
    text = json.dumps([found.table.full_name, sorted(found.values.items())])
    return "a row" if keys is None else f"row {keys.hashed(text)[:16]}"


def _again(look: Callable[[], T]) -> T:
    gone = retry_if_exception_type((duckdb.IOException, duckdb.HTTPException))
    return Retrying(retry=gone, stop=stop_after_attempt(5), reraise=True)(look)


def _rows(count: int) -> str:
    return "1 such row" if count == 1 else f"{count:,} such rows"


def _unreadable(found: Sorted) -> str | None:
    if not found.unreadable:
        return None
    named = ", ".join(":".join(map(str, where)) for where in sorted(found.unreadable)[:5])
    return (
        f"nobody can tell of {len(found.unreadable):,} others whom they are about: {named} (`lakehouse dlq show`;"
        " --doubtful erases them, too)"
    )
