"""Every command's output at 80 columns and into a pipe: no line is too wide, and no value is lost.

A new command needs a case here, or a word in `SAID` on why it has none.
"""

import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer

from pipelines.ledger.entries import Counts
from pipelines.maintenance.health import Health
from pipelines.maintenance.plan import DueTask
from quality.contract import Check, Column, Contract
from services.capture.status import CaptureReport
from services.checker.record import CheckResult, CheckRun
from services.cli import (
    advise,
    audit,
    backfill,
    backup,
    check,
    continuous,
    contract,
    dlq,
    dlq_actions,
    erase,
    lineage,
    main,
    maintain,
    resync,
    schema,
    show,
    tables,
    trial,
    verify,
)
from services.cli.reference import commands
from services.demo import __main__ as demo
from services.demo import display as demo_display
from services.faults import __main__ as faults
from services.operations.audit_trail import Entry
from services.operations.backup.contents import Manifest
from services.operations.backup.restore import Restored
from services.operations.contracts.diff import Difference as ContractDifference
from services.operations.contracts.summary import Promise
from services.operations.erase.copy import Copy
from services.operations.faults.switch import Fault
from services.operations.layout.advice import Advice
from services.operations.layout.observation import Observation
from services.operations.maintain.needs import Need
from services.operations.maintain.requests import Answer
from services.operations.resync.resync import ResyncReport, TableResync
from services.runner import __main__ as runner
from services.runner.report import ServiceReport, StackReport
from services.runner.verifier import Verified
from services.shop import __main__ as shop
from services.shop import display as shop_display
from services.shop.load import LoadSummary
from services.shop.summary import Summary
from services.stack.console import UNLIMITED, Grid, out
from services.verify.explanation import Facts, explain
from services.verify.ledger_proof import TableHistory
from services.verify.report import Difference, Report, TableReport
from services.verify.rounds import Finding, TableState, VerifiedPosition

ROOT = Path(__file__).resolve().parents[3]
NARROW = 80
APPS = {"lakehouse": main.app, "runner": runner.app, "shop": shop.app, "faults": faults.app, "demo": demo.app}

# As long as PostgreSQL allows.
LONG = ("a_table_with_a_name_of_sixty_three_characters_as_postgres_allows" * 2)[:63]
COLUMN = ("a_column_with_a_name_of_sixty_three_characters_as_some_have_them" * 2)[:63]
TABLE, LAKE_TABLE, TOPIC = f"public.{LONG}", f"lake.shop.{LONG}", f"shop.public.{LONG}"
# What looks like markup, an emoji or an ellipsis of rich isn't taken for one.
REASON = (
    "the column [bold]total[/bold] was numeric(14,2) :key: and is text now, which the table's spec says to freeze; "
    "[/nothing] of it is lost, see infra/runbooks/lake-differs.md"
)
SNAPSHOT = 4407154000972045753
NOON = datetime(2026, 5, 1, 12, 34, 56, tzinfo=UTC)
MARK = VerifiedPosition(lsn="12A/FFB3C4D8", at=NOON, snapshot_id=SNAPSHOT)

# What prints nothing of any width, or one sentence through the same console (`test_a_sentence_…`).
SAID = {
    "lakehouse env": "for a shell to read, a line a setting",
    "lakehouse wait": "a sentence",
    "lakehouse dlq accept": "a sentence",
    "lakehouse table give-up": "a sentence",
    "lakehouse capture exclude": "a sentence",
    "lakehouse capture include": "a sentence",
    "lakehouse docs": "a sentence",
    "lakehouse contract init": "a sentence",
    "runner down": "a sentence",
    "runner clean": "a sentence",
    "runner kill": "a sentence",
    "runner logs": "lines of logs, as they are",
    "shop setup": "nothing",
    "shop reset": "nothing",
}


@dataclass(frozen=True)
class Case:
    command: str
    label: str
    show: Callable[[], object]
    values: tuple[str, ...]


def letters() -> list[dict[str, object]]:
    return [
        {"topic": TOPIC, "partition": 0, "offset": 90071992547, "stage": "decode", "reason": "unknown_schema",
         "state": "open", "dead_lettered_at": NOON, "message": REASON},
        {"topic": "shop.public.orders", "partition": 2, "offset": 17, "stage": "decode", "reason": "not_avro",
         "state": "open", "dead_lettered_at": NOON, "message": None},
    ]  # fmt: skip


LETTER_VALUES = (f"{TOPIC}:0:90071992547", "shop.public.orders:2:17", "decode", "unknown_schema", "2026-05-01 12:34:56",
                 REASON)  # fmt: skip


def facts() -> list[tables.TableFacts]:
    ago = datetime.now(UTC) - timedelta(hours=3)
    known = {"verified_through": "12A/FFB3C4D8", "verified_at": ago, "differences": 7_654}
    columns = [{"name": COLUMN, "type": "decimal(38, 10)", "key": True, "doc": None},
               {"name": "mail", "type": "string", "key": False, "doc": REASON}]  # fmt: skip
    return [
        tables.TableFacts(LAKE_TABLE, "mirror", TABLE, TOPIC, ["id"], 1_234_567_890, 12_345, 678, 9_876_543_210, 4_321,
                          str(SNAPSHOT), ago, 99_999, 10_800.0, None, columns=columns, **known),
        tables.TableFacts("lake.shop.orders", "mirror", "public.orders", "t", ["id"], 41_515, 10, 2, 1_000, 120,
                          str(SNAPSHOT), None, 0, None, None),
    ]  # fmt: skip


FACTS_VALUES = (LAKE_TABLE, TABLE, "1,234,567,890", "12,345", "678", "9.2 GiB", "4,321", "99,999", "3.0 h",
                "12A/FFB3C4D8", "7,654", "lake.shop.orders", "41,515", "120")  # fmt: skip


def report() -> Report:
    differs = TableReport(TABLE, LAKE_TABLE, SNAPSHOT, rows_source=1_234_567_890, rows_lake=1_234_567_801,
                          differing=123,
                          missing=456, extra=789, duplicates=21, tail_events=65_432, columns_compared=87, seconds=123.4,
                          problems=[REASON], not_compared={COLUMN: "its type has no equality"}, undecodable=31,
                          examples=[Difference("differs", {"id": "4711"}, {COLUMN: ("x" * 100, "[/y]")})])  # fmt: skip
    equal = TableReport("public.orders", "lake.shop.orders", SNAPSHOT, rows_source=41_515, rows_lake=41_515)
    return Report("s", "12A/FFB3C4D8", [differs, equal], not_captured=[f"public.{COLUMN}"], seconds=125.0)


PROOF_VALUES = (
    TABLE,
    "1,234,567,890",
    "1,234,567,801",
    "differs",
    "equal",
    REASON,
    COLUMN,
    "4711",
    "x" * 100,
    "41,515",
)


def history() -> list[TableHistory]:
    counts = Counts(merged=1_111_222, superseded=33_344, dead_lettered=55, tombstones=66_777, truncates=8)
    return [TableHistory(TABLE, TOPIC, False, 98_765, 3, 2_222_333, 12_121, counts, 55, [REASON]),
            TableHistory("public.orders", "t", True, 7, 0, 99)]  # fmt: skip


def states() -> list[TableState]:
    finding = Finding(after=None, upto=None, keys={"4711": "differs"}, more=3, problems=(REASON,), found=MARK, ends={},
                      looked_at=NOON, confirmed=1)  # fmt: skip
    return [TableState(table=TABLE, verified=MARK, ended_at=NOON, findings=(finding,)),
            TableState(table="public.orders", not_compared=REASON)]  # fmt: skip


def check_runs() -> list[CheckRun]:
    results = (
        CheckResult(f"{COLUMN} is never null", "not_null", COLUMN, False, None, 1_234_567, 7_654, None, None),
        CheckResult("the newest row is an hour old at most", "sql", None, False, None, None, None, None, REASON),
    )
    return [CheckRun("r", f"shop.{LONG}", SNAPSHOT, "1.2.3", NOON, 3.0, False, 41, 2, 0, None, None, results)]


def contracts() -> list[Contract]:
    columns = (Column(COLUMN, "string", protection="encrypt"), Column("mail", "string", protection="hash"))
    checks = (Check("fresh", "sql"),)
    return [Contract(("public", LONG), "12.34.56", "deprecated", columns, checks=checks,
                     owner="people-who-own-a-lot@example.com", freshness_seconds=86_400, blocking=True)]  # fmt: skip


def lineage_run() -> dict[str, object]:
    def use(namespace: str, name: str, version: str, rows: int) -> dict[str, object]:
        return {"datasetVersionId": {"namespace": namespace, "name": name, "version": version},
                "facets": {"inputStatistics": {"rowCount": rows}}}  # fmt: skip

    return {
        "id": "01890000-0000-7000-8000-000000000001", "state": "FAILED", "startedAt": "2026-05-01T12:34:56Z",
        "durationMs": 61_234, "jobVersion": {"name": f"mirror.shop.{LONG}"},
        "facets": {"errorMessage": {"message": REASON}},
        "inputDatasetVersions": [use("kafka://kafka:19092", TOPIC, '{"0": 90071992547, "1": 3}', 55_666)],
        "outputDatasetVersions": [use("s3://lake", f"warehouse/shop/{LONG}", str(SNAPSHOT), 77_888)],
    }  # fmt: skip


def lineage_graph() -> list[dict[str, object]]:
    def node(kind: str, namespace: str, name: str, into: list[str], out_of: list[str]) -> dict[str, object]:
        at = f"{kind.lower()}:{namespace}:{name}"
        return {"id": at, "type": kind, "data": {"namespace": namespace, "name": name},
                "inEdges": [{"origin": each, "destination": at} for each in into],
                "outEdges": [{"origin": at, "destination": each} for each in out_of]}  # fmt: skip

    job, topic, table = f"job:l:mirror.{LONG}", f"dataset:kafka://kafka:{TOPIC}", f"dataset:s3://lake:{LONG}"
    return [node("DATASET", "kafka://kafka", TOPIC, [], [job]), node("JOB", "l", f"mirror.{LONG}", [topic], [table]),
            node("DATASET", "s3://lake", LONG, [job], [])]  # fmt: skip


def show_lineage() -> None:
    nodes = lineage.indexed(lineage_graph())
    out.print(lineage.tree(nodes, f"dataset:s3://lake:{LONG}", ["upstream"], LAKE_TABLE))


def capture() -> CaptureReport:
    return CaptureReport(
        connector="RUNNING", tasks={"0": f"FAILED: {REASON}"}, error=REASON, next_step="see `make logs s=capture`",
        warning=REASON, restarts_used=3, restarts_allowed=5, slot="active, log extended", confirmed_flush_lsn="0/1",
        wal_held_bytes=1_234_567_890, wal_bound_bytes=9_876_543_210,
        tables={TABLE: f"whole rows: {REASON}", "public.orders": "keyed"}, changed_without_events={TABLE: REASON},
    )  # fmt: skip


def stack() -> StackReport:
    services = (
        ServiceReport(name="schema-registry", state="unhealthy", detail=REASON, ports=(18081, 28081, 38081),
                      memory_bytes=12_345_678_901, uptime_seconds=273_600, restarts=123),
        ServiceReport(name="object-store-init", state="completed"),
    )  # fmt: skip
    return StackReport(runner="process", services=services, memory_kind="proportional set size")


def summary() -> Summary:
    return Summary(run=7, seed=1, connections=4, transactions=6_789, planned=7_000, complete=False, abandoned=123,
                   kinds={}, changes={LONG: {"insert": 1_234, "update": 5_678, "delete": 91}}, row_changes=7_003,
                   seconds=61.2, rate=99.8, late_share=0.0123)  # fmt: skip


LOADED = LoadSummary(run=1, rows={LONG: 1_234_567}, seconds=12.3)
HELD = {TOPIC: REASON}
EXPLAINED = explain(TABLE, TOPIC, Facts(letters={"not_avro": 4_567}, held=REASON))
DESCRIBED = [("table", LAKE_TABLE), ("layout", REASON), ("made of", f"{TOPIC} (topic of Kafka kafka://kafka:19092)")]
SNAPSHOTS = [{"snapshot_id": str(SNAPSHOT), "committed_at": NOON, "operation": "overwrite", "batch": "12345",
              "offsets": '{"0": [1000000, 90071992547], "1": [7, 9]}'}]  # fmt: skip
PROMISE = Promise("1.2.3", "active", None, None, None, 60.0, None, [], {"mail": "personal"}, {}, {"mail": "hash"})
ANSWERS = [Answer(f"shop.{LONG}", "compaction", REASON, 12.3, 4_567, 89, 1_212, 11, 3_456_789_012, None),
           Answer("shop.orders", "expiry", "", None, None, None, None, None, None, REASON)]  # fmt: skip
NEEDS = [Need(f"shop.{LONG}", Health(1_234_567_890, 123_456, 12_345, 678, 9_876_543_210, 4_321), 12.34,
              [DueTask("compaction", REASON)])]  # fmt: skip
ENTRY = Entry("1", "discard", f"{TOPIC}, reason not_avro", "somebody.with.a.long.name@example.com", REASON, NOON,
              "done", NOON, {"letters": 98_765})  # fmt: skip
SEEN = Observation(1_234_567, 1, 8_765, ("id",), 17, 432)
COPY = Copy(f"topic {TOPIC}", "records", 98_765, False, NOON, REASON)
LETTER = {"topic": TOPIC, "partition": 0, "message": REASON, "headers": [{"key": "h", "value": "v" * 90}],
          "key": None, "value": {"bytes": 90, "schema_id": 4711, "hex": bytes(range(90)).hex(),
                                 "decoded": {COLUMN: REASON}}}  # fmt: skip
CONTRACT_DIFFERENCES = [(contracts()[0], [ContractDifference("lake", COLUMN, REASON, True)])]

CASES = [
    Case("lakehouse verify", "rows", lambda: verify.print_report(report()),
         (*PROOF_VALUES, str(SNAPSHOT), "12A/FFB3C4D8", "456", "789", "21", "65,432", "123.4", f"public.{COLUMN}")),
    Case("lakehouse verify", "--ledger", lambda: verify.print_histories(history()),
         (TABLE, "98,765", "2,222,333", "1,111,222", "33,344", "66,777", "12,121", "not whole", "whole", REASON)),
    Case("lakehouse verify", "--continuous", lambda: continuous._print(states(), {TABLE: EXPLAINED}),
         (TABLE, "4,567 open dead letters",
          "12A/FFB3C4D8", "2026-05-01 12:34:56", str(SNAPSHOT), "4711 differs", REASON, "public.orders")),
    Case("lakehouse verify", "--derived", lambda: verify.print_derived([
        {"table": f"marts.{LONG}", "snapshot": SNAPSHOT, "rows": 98_765_432, "missing": 12_345, "extra": 6_789,
         "differing": 4_321, "problem": REASON, "equal": False, "examples": [
             {"kind": "differs", "key": {COLUMN: 4711}, "values": {COLUMN: {"computed": "12.5", "table": None}}}]}]),
         (f"marts.{LONG}", str(SNAPSHOT), "98,765,432", "12,345", "6,789", "4,321", REASON, "4711", "12.5")),
    Case("lakehouse backup", "", lambda: backup._print_backup(Path("/mnt/backups/2026-03-01T020000Z"), Manifest(
        "2026-03-01T02:00:00+00:00", "s3://lake/warehouse", (), {}, 11_734, 309_000_000, False,
    )), ("/mnt/backups/2026-03-01T020000Z", "11,734 files", "294.7 MiB", "must keep")),
    Case("lakehouse restore", "", lambda: backup._print(
        Restored([LONG], 3, True, ["s3://lake/lost.parquet"], [f"shop.{LONG}"]), whole=False, replaced=False,
    ), ("1 tables, 3 files", "s3://lake/lost.parquet", f"shop.{LONG} was made anew", "--replace")),
    Case("lakehouse restore", "whole", lambda: backup._print(Restored([LONG], 3), whole=True, replaced=False),
        ("make up", "lakehouse resync --all", "lakehouse resync --events")),
    Case("lakehouse backfill", "", lambda: backfill._print(f"marts.{LONG}", [
        {"by": COLUMN, "start": "2026-05-01 12:34:56+00:00", "end": "2026-05-02 12:34:56+00:00",
         "written": {"inserted": 1_234_567, "updated": 98_765, "deleted": 4_321}}]),
         (f"marts.{LONG}", "2026-05-01 12:34:56", "1,234,567", "98,765", "4,321", "1 pieces")),
    Case("lakehouse backfill", "--branch", lambda: trial._print(
        {"table": f"marts.{LONG}", "branch": LONG, "rows": 98_765_432, "missing": 12_345, "extra": 6_789,
         "differing": 4_321, "columns": {COLUMN: 3_210}, "added": ["later"], "dropped": ["sooner"], "examples": [
             {"kind": "differs", "key": {"id": 4711}, "values": {COLUMN: {"now": "12.5", "tried": None}}}]}),
         (f"marts.{LONG}", "98,765,432", "12,345", "6,789", "4,321", "3,210", "4711", "12.5 now", "later", "sooner",
          f"VERSION AS OF '{LONG}'", "--discard")),
    Case("lakehouse heal", "", lambda: out.print(f"{TABLE}: {REASON}"), (TABLE, REASON)),
    Case("lakehouse table list", "", lambda: tables._print(facts(), HELD), (*FACTS_VALUES, f"held: {TOPIC}", REASON)),
    Case("lakehouse table show", "", lambda: show._print(DESCRIBED, facts()[0], SNAPSHOTS, PROMISE, {"mail": "hash"}),
         (LAKE_TABLE, REASON, COLUMN, "decimal(38, 10)", "personal", "hash", str(SNAPSHOT), "2026-05-01 12:34:56",
          "12345", '{"0": [1000000, 90071992547], "1": [7, 9]}')),
    Case("lakehouse table advise", "", lambda: advise._print(SEEN, [Advice("sort", COLUMN, REASON, 0.91, 0.123)], LONG,
                                                             TABLE),
         ("1,234,567", "8,765", f"sort: {COLUMN}", REASON, "91%", "12.3%", f"table: {TABLE}", f"sort: [{COLUMN}]")),
    Case("lakehouse dlq list", "", lambda: dlq._print_newest(letters(), {(TOPIC, "decode", "unknown_schema"): 98_765}),
         (*LETTER_VALUES, "98,765")),
    Case("lakehouse dlq show", "", lambda: dlq._print_letter(LETTER),
         (TOPIC, REASON, "v" * 90, "4711", "00000050", COLUMN)),
    *(Case(f"lakehouse {name}", "--dry-run", lambda: dlq_actions._done("would be", letters(), False, True),
           LETTER_VALUES) for name in ("replay", "dlq replay", "dlq discard")),
    Case("lakehouse schema history", "", lambda: schema._print([{"at": "2026-05-01T12:34:56Z", "lsn": "12A/FFB3C4D8",
                                                                "done": [f"add {COLUMN} string", REASON]}]),
         ("2026-05-01T12:34:56Z", "12A/FFB3C4D8", COLUMN, REASON)),
    Case("lakehouse contract check", "", lambda: contract._print_contracts(contracts(), Path("quality/contracts")),
         (TABLE, "12.34.56", "deprecated", "people-who-own-a-lot@example.com", "86400 s", f"{COLUMN} (encrypt)",
          "mail (hash)", "blocking")),
    Case("lakehouse contract diff", "", lambda: contract._print(CONTRACT_DIFFERENCES),
         (TABLE, "12.34.56", "1 broken", COLUMN, REASON)),
    Case("lakehouse lineage show", "", show_lineage, (LAKE_TABLE, TOPIC, f"mirror.{LONG}")),
    *(Case(f"lakehouse lineage {name}", "", lambda: lineage._print_run(lineage_run()),
           ("01890000-0000-7000-8000-000000000001", f"mirror.shop.{LONG}", "61.2 s", REASON, TOPIC,
            '{"0": 90071992547, "1": 3}', "55,666", f"warehouse/shop/{LONG}", str(SNAPSHOT), "77,888"))
      for name in ("run", "snapshot")),
    Case("lakehouse resync", "", lambda: resync._print(
        ResyncReport(False, [TableResync(TABLE, 1_234_567_890, 98_765, 4_321)], 12.0)),
         (TABLE, "1,234,567,890", "98,765", "4,321")),
    Case("lakehouse check", "", lambda: check._print(check_runs()),
         (f"shop.{LONG}", "1.2.3", str(SNAPSHOT), "2 broken of 41", COLUMN, "1,234,567", "7,654", REASON)),
    Case("lakehouse maintain", "--dry-run", lambda: maintain._print_needs(NEEDS),
         (f"shop.{LONG}", "1,234,444,434", "12,345", "678", "9.2 GiB", "4,321", "12.34", REASON)),
    Case("lakehouse maintain", "", lambda: maintain._print_answers(ANSWERS),
         (f"shop.{LONG}", "compaction", "4567 → 89", "1212 → 11", "3.2 GiB", "12.3", REASON, "expiry")),
    Case("lakehouse erase", "", lambda: erase._print([COPY], False),
         (f"topic {TOPIC}", "98,765 records", "left", "2026-05-01 12:34", REASON)),
    Case("lakehouse audit", "", lambda: audit._print([ENTRY]),
         ("2026-05-01 12:34:56", "somebody.with.a.long.name@example.com", "discard", TOPIC, REASON, "98765")),
    Case("runner status", "", lambda: runner._print_status(
        stack(), capture(), HELD, Verified(states(), {TABLE: EXPLAINED})),
         (TOPIC, "4,567 open dead letters",
          "schema-registry", "unhealthy", "18081 28081 38081", "11,774 MiB", "3 d 4 h", "123", REASON,
          "object-store-init", "FAILED", "3 of 5", "1,177.4", TABLE, "public.orders")),
    Case("runner up", "", lambda: runner._print_up(list(stack().services), 61.2),
         ("61.2 s", "schema-registry", "127.0.0.1:18081", "127.0.0.1:38081")),
    Case("shop load", "", lambda: shop_display.print_load(LOADED, False),
         (LONG, "1,234,567", "12.3 s")),
    *(Case(f"shop {name}", "", lambda: shop_display.print_summary(summary(), False),
           (LONG, "1,234", "5,678", "91", "6,789", "123 rolled back", "99.8")) for name in ("run", "start")),
    Case("faults", "", lambda: faults._list([Fault("after-commit-before-ledger-is-checked", REASON, "armed: kill")]),
         ("after-commit-before-ledger-is-checked", REASON, "armed: kill")),
    Case("demo", "proof", lambda: demo_display.print_proof(report()), (*PROOF_VALUES, "87")),
    Case("demo", "moments", lambda: demo_display.print_moments(
        [("12:34:56", str(SNAPSHOT), "1,234,567", "cancelled 4,567, delivered 98,765, paid 321, shipped 77")]),
         ("12:34:56", str(SNAPSHOT), "1,234,567", "delivered 98,765")),
    Case("demo", "letters", lambda: demo_display.print_letters(letters()),
         (f"{TOPIC}:0:90071992547", "unknown_schema", REASON)),
    Case("demo", "files", lambda: demo_display.print_files([(LONG, "12345", "678", "4321")]), (LONG, "12345", "4321")),
    Case("demo", "heading", lambda: demo_display.head("3. Proof: source and lake, row by row"), ("3. Proof",)),
]  # fmt: skip


def named(case: Case) -> str:
    return f"{case.command} {case.label}".rstrip()


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run(show: Callable[[], object], width: int) -> str:
        monkeypatch.setattr(out, "width", width)
        show()
        return capsys.readouterr().out

    return run


def bare(text: str) -> str:
    """Without what lines and borders put between the characters of a value."""
    return re.sub(r"[\s│┃├└─]", "", text)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_at_80_columns_everything_is_there(case: Case, printed: Callable[..., str]) -> None:
    text = printed(case.show, NARROW)

    assert [line for line in text.splitlines() if len(line) > NARROW] == []
    words = bare(text)
    assert [word for value in case.values for word in value.split() if bare(word) not in words] == []
    assert "…" not in text


@pytest.mark.parametrize("case", CASES, ids=named)
def test_into_a_pipe_a_value_is_on_one_line(case: Case, printed: Callable[..., str]) -> None:
    text = printed(case.show, UNLIMITED)

    assert [value for value in case.values if value not in text] == []
    assert "…" not in text


def test_every_command_has_a_case() -> None:
    leaves = set()
    for name, app in APPS.items():
        every = list(commands(typer.main.get_command(app), name))
        leaves |= {" ".join(words) for words in every if not any(other[:-1] == words for other in every)}

    assert leaves == {case.command for case in CASES} | set(SAID)


def test_there_is_one_console() -> None:
    # Another would have another width.
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "services").rglob("*.py")
        if re.search(r"\bConsole\(", path.read_text(encoding="utf-8"))
    }
    assert found == {"services/stack/console.py"}


@pytest.mark.parametrize(("columns", "widest"), [("80", 80), ("", 100), ("x", 100), (None, 100), ("0", 100)])
def test_a_pipe_is_as_wide_as_columns_says(columns: str | None, widest: int) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    script = "from services.stack.console import err, out; out.print('word ' * 20); err.print('word ' * 20)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True,
                          env=environment if columns is None else environment | {"COLUMNS": columns})  # fmt: skip

    for text in (done.stdout, done.stderr):
        assert max(map(len, text.splitlines())) <= widest
        assert len(text.splitlines()) == (2 if widest == 80 else 1)


def test_a_terminal_has_its_own_width() -> None:
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, 60))
    script = "from services.stack.console import out; out.print('word ' * 20)"
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": "xterm"}
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, env=environment, stdin=follower,
                   stdout=follower, stderr=follower)  # fmt: skip
    os.close(follower)
    with os.fdopen(leader, "rb", buffering=0) as terminal:
        text = terminal.read(10_000).decode()

    assert [len(line.rstrip()) for line in text.splitlines()] == [59, 39]


def test_make_help_fits_too() -> None:
    def lines(**environment: str) -> list[str]:
        return subprocess.run(
            ["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True, env=os.environ | environment
        ).stdout.splitlines()

    narrow, whole = lines(COLUMNS="80"), lines(COLUMNS="")
    assert max(map(len, narrow)) <= NARROW < max(map(len, whole))
    assert " ".join(narrow).split() == " ".join(whole).split()


def test_a_table_breaks_texts_before_it_folds(printed: Callable[..., str]) -> None:
    grid = Grid("what", "why", "how")
    grid.add_row("a", "some words " * 5, "1 GiB")

    wide, narrow, folded = (printed(lambda: out.print(grid), width) for width in (100, 50, 30))

    assert ("│ 1 GiB │" in wide, len(wide.splitlines())) == (True, 5)
    assert ("│ 1 GiB │" in narrow, len(narrow.splitlines())) == (True, 6)
    assert [line.rstrip() for line in folded.splitlines()][:2] == ["a", "  how 1 GiB"]
