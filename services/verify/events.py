"""Prove that a stream's table holds what its topic does: each event once, with its values, and nothing else.

The topic's records are decoded by other code than the pipeline's (fastavro, and Python's JSON), and the table's rows
are read by PyIceberg. An event may be missing for one of three reasons, each of which is looked up: it is a dead
letter; its table has an earlier one of its identifier, within the time that its spec says; or it has no value.
"""

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
from confluent_kafka import Message
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, In, LessThan
from pyiceberg.table import Table

from pipelines.kafka.avro import HEADER_BYTES, Undecodable
from pipelines.lake.properties import PROTECTED, TOPIC
from pipelines.specs.events import EventSpec
from pipelines.specs.load import Specs
from services.stack.endpoints import StackSettings
from services.stack.errors import CannotVerify
from services.stack.lake import called, dead_letters, ledger_of, open_catalog, streams
from services.stack.offsets import kafka
from services.stack.progress import OnProgress, Progress, silent
from services.stack.records import Decoder, read_range

PARTITION, OFFSET, INGESTED = "_kafka_partition", "_kafka_offset", "_ingested_at"
AT_ONCE, LOOKED_UP = 50_000, 1_000
TECHNICAL = (PARTITION, OFFSET, INGESTED)


@dataclass
class StreamReport:
    """What was found of one stream's table.

    ``missing``: events that are nowhere, ``extra``: rows whose record is none, ``double``: rows beyond the first of a
    record, ``differing``: rows with another value than their event. ``skipped``: offsets that Kafka doesn't hold any
    more. ``not_compared``: columns whose values are protected.
    """

    table: str
    topic: str
    snapshot_id: int | None
    rows: int = 0
    events: int = 0
    dead_letters: int = 0
    duplicates: int = 0
    tombstones: int = 0
    missing: int = 0
    extra: int = 0
    double: int = 0
    differing: int = 0
    skipped: int = 0
    examples: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.missing or self.extra or self.double or self.differing)


def verify_streams(
    settings: StackSettings, specs: Specs, names: tuple[str, ...] = (), on_progress: OnProgress = silent,
    examples: int = 10,
) -> list[StreamReport]:  # fmt: skip
    """Compare the tables of event streams (all, or those named) with what Kafka holds of their topics.

    As of each table's current snapshot. Raises CannotVerify for a name that no stream has, and Unreachable.
    """
    catalog = open_catalog(settings)
    found = {".".join(table.name()[-2:]): table for table in streams(catalog, settings)}
    unknown = set(names) - {each for name in found for each in called(name)}
    if unknown:
        raise CannotVerify(f"no event stream is called {', '.join(sorted(unknown))}. Streams: {', '.join(found)}.")
    wanted = {name: table for name, table in found.items() if not names or called(name) & set(names)}
    unspecified = [name for name in wanted if name not in specs.streams]
    if unspecified:
        raise CannotVerify(f"{unspecified[0]} has no spec here any more, which says how its events are read.")
    decoder = Decoder(settings.schema_registry_url)
    return [
        _Comparison(settings, catalog, specs.streams[name], table, decoder, on_progress, examples).report()
        for name, table in wanted.items()
    ]


class _Comparison:
    """The comparison of one stream."""

    def __init__(
        self, settings: StackSettings, catalog: Catalog, spec: EventSpec, table: Table, decoder: Decoder,
        on_progress: OnProgress, examples: int,
    ) -> None:  # fmt: skip
        self._settings, self._spec, self._table, self._on_progress = settings, spec, table, on_progress
        self._examples, self._read = examples, _reader(spec, decoder)
        snapshot = table.current_snapshot()
        name = ".".join(table.name()[-2:])
        self._report = StreamReport(name, table.properties[TOPIC], snapshot.snapshot_id if snapshot else None)
        protected = json.loads(table.properties.get(PROTECTED, "{}"))
        self._report.not_compared = sorted(protected)
        self._letters = _letters(catalog, spec.topic)
        # Identifier to the event times of the rows that have it, and of events that weren't met among them.
        self._times: dict[Any, list[datetime]] = {}
        self._absent: list[tuple[int, int, Any, datetime | None]] = []

    def report(self) -> StreamReport:
        """Compare, and return what was found."""
        report, topics = self._report, kafka(self._settings)
        positions = ledger_of(self._table).positions
        starts = topics.starts(topics.partitions_of([self._spec.topic]))
        total = sum(positions.values())
        for partition, end in sorted(positions.items()):
            first = min(starts.get((self._spec.topic, partition), 0), end)
            report.skipped += first
            for start in range(first, end, AT_ONCE):
                self._compare(partition, start, min(end, start + AT_ONCE))
                done = report.events + report.skipped
                self._on_progress(Progress(report.table, "events compared", done, total))
        self._explain_absent()
        return report

    def _compare(self, partition: int, start: int, end: int) -> None:
        report = self._report
        within = And(GreaterThanOrEqual(term=OFFSET, value=start), LessThan(term=OFFSET, value=end))
        where = And(EqualTo(term=PARTITION, value=partition), within)
        scan = self._table.scan(row_filter=where, snapshot_id=report.snapshot_id)
        rows: dict[int, dict[str, Any]] = {}
        for row in _rows(scan.to_arrow()):
            report.rows += 1
            if row[OFFSET] in rows:
                report.double += 1
                self._tell(f"twice in the lake: {partition}:{row[OFFSET]}")
            rows[row[OFFSET]] = row
            self._note(row)
        for message in read_range(self._settings.kafka_bootstrap, self._spec.topic, {partition: (start, end)}):
            report.events += 1
            self._match(partition, message, rows.pop(int(message.offset() or 0), None))
        report.extra += len(rows)
        for offset in rows:
            self._tell(f"only in the lake: {partition}:{offset}")

    def _match(self, partition: int, message: Message, row: dict[str, Any] | None) -> None:
        report, offset = self._report, int(message.offset() or 0)
        place = f"{partition}:{offset}"
        if message.value() is None:
            report.tombstones += 1
            if row is not None:
                report.extra += 1
                self._tell(f"a row of an event without a value: {place}")
            return
        is_letter = (partition, offset) in self._letters
        report.dead_letters += is_letter
        try:
            event = self._read(message)
        except Undecodable as error:
            if not is_letter:
                report.missing += 1
                self._tell(f"neither a row nor a dead letter, and can't be read: {place}: {error}")
            return
        if row is None and not is_letter:
            by = self._spec.deduplicate.by if self._spec.deduplicate else None
            moment = _moment(event.get(self._spec.event_time.column))
            self._absent.append((partition, offset, event.get(by) if by else None, moment))
        elif row is not None and is_letter:
            report.extra += 1
            self._tell(f"a row, though it is a dead letter: {place}")
        elif row is not None:
            wrong = [
                name for name, value in row.items()
                if name not in (*TECHNICAL, *report.not_compared, self._spec.key, self._spec.headers)
                and not _same(value, event.get(name))
            ]  # fmt: skip
            report.differing += bool(wrong)
            if wrong:
                self._tell(f"differs: {place}: {', '.join(wrong)}")

    def _note(self, row: Mapping[str, Any]) -> None:
        rule = self._spec.deduplicate
        moment = _moment(row[self._spec.event_time.column])
        if rule is not None and moment is not None and row[rule.by] is not None:
            self._times.setdefault(row[rule.by], []).append(moment)

    def _explain_absent(self) -> None:
        """Tell the events that came twice from those that are missing."""
        report, unexplained = self._report, [each for each in self._absent if not self._came_before(each)]
        report.duplicates += len(self._absent) - len(unexplained)
        # The earlier one may be a row whose record Kafka holds no more, or of a topic that is gone.
        self._note_all_of({each[2] for each in unexplained} - {None})
        for each in unexplained:
            if self._came_before(each):
                report.duplicates += 1
            else:
                report.missing += 1
                self._tell(f"missing: {each[0]}:{each[1]}")

    def _came_before(self, absent: tuple[int, int, Any, datetime | None]) -> bool:
        """Return whether a row that was met has the event's identifier, within the time that the spec says."""
        rule, (_, _, identifier, moment) = self._spec.deduplicate, absent
        if rule is None or identifier is None or moment is None:
            return False
        return any(abs((met - moment).total_seconds()) <= rule.within for met in self._times.get(identifier, ()))

    def _note_all_of(self, identifiers: Collection[Any]) -> None:
        """Note every row with one of these identifiers."""
        rule, every = self._spec.deduplicate, list(identifiers)
        for start in range(0, len(every) if rule is not None else 0, LOOKED_UP):
            assert rule is not None
            some = In(term=rule.by, literals=every[start : start + LOOKED_UP])
            fields = (rule.by, self._spec.event_time.column)
            scan = self._table.scan(row_filter=some, selected_fields=fields, snapshot_id=self._report.snapshot_id)
            for row in _rows(scan.to_arrow()):
                self._note(row)

    def _tell(self, example: str) -> None:
        if len(self._report.examples) < self._examples:
            self._report.examples.append(example)


def _reader(spec: EventSpec, decoder: Decoder) -> Callable[[Message], dict[str, Any]]:
    """Return what decodes a record's value."""

    def avro(message: Message) -> dict[str, Any]:
        value, _ = decoder.decode(message.value() or b"")
        if not isinstance(value, dict):
            raise Undecodable("no record")
        return value

    def plain_json(message: Message) -> dict[str, Any]:
        data = message.value() or b""
        try:
            value = json.loads(data[HEADER_BYTES:] if data[:1] == b"\0" else data)
        except ValueError as error:
            raise Undecodable(str(error)) from None
        if not isinstance(value, dict):
            raise Undecodable("no object")
        return value

    return avro if spec.format == "avro" else plain_json


def _letters(catalog: Catalog, topic: str) -> set[tuple[int, int]]:
    table = dead_letters(catalog)
    if table is None:
        return set()
    found = table.scan(
        row_filter=EqualTo(term="topic", value=topic), selected_fields=("partition", "offset")
    ).to_arrow()
    return set(zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True))


def _rows(rows: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in rows.to_batches(max_chunksize=10_000):
        yield from batch.to_pylist(maps_as_pydicts="strict")


def _moment(value: Any) -> datetime | None:
    """Return an event's time, however it is written."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return datetime(value.year, value.month, value.day, tzinfo=UTC) if isinstance(value, date) else None


def _same(row: Any, event: Any) -> bool:
    """Return whether a value of the lake is that of an event. What only one of two structs has is null in the other."""
    if isinstance(row, dict):
        has = event or {}
        return isinstance(has, dict) and all(_same(row.get(name), has.get(name)) for name in row.keys() | has.keys())
    if isinstance(row, list) and isinstance(event, list):
        return len(row) == len(event) and all(map(_same, row, event))
    if isinstance(row, datetime) or (isinstance(row, date) and isinstance(event, str)):
        return _moment(row) == _moment(event)
    if isinstance(row, float) and isinstance(event, (int, float)):
        return row == event or (math.isnan(row) and math.isnan(event))
    # A column of texts has the JSON of whatever else came.
    as_json = isinstance(row, str) and not isinstance(event, (str, type(None)))
    return bool((json.loads(row) if as_json else row) == event)
