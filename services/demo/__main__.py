"""The demo's story, step by step. Exit code 1 if anything differs."""

import socket
import subprocess
import sys
import time
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Annotated, Any

import typer
from confluent_kafka import Producer
from pyiceberg.table import Table as LakeTable
from rich.text import Text

from pipelines.kafka.client import client_config
from services.demo.display import head, print_files, print_letters, print_moments, print_proof, warn
from services.demo.freshness import Freshness, freshness, measured
from services.demo.pictures import draw, sizes_of
from services.demo.shop import Traffic, load
from services.demo.watch import Watch, follow
from services.stack.console import out
from services.stack.duckdb_session import open_duckdb
from services.stack.endpoints import StackSettings
from services.stack.errors import LakehouseError, StackError
from services.stack.lake import open_catalog, pin, tables
from services.stack.lake_files import pinned_rows
from services.stack.position import wait_until_visible
from services.stack.settings import CHECKOUT, ServiceSettings
from services.verify.report import Report
from services.verify.verification import verify

BROKEN_RECORDS = (b"this is not Avro", b"\x00\x7f\xff\xff\xfe an unknown schema", b"\x00\x00")
CATCH_UP_SECONDS = 600
# Changes this close before the kill may have been in the batch that was killed.
SETTLE_SECONDS = 20
DEAD_LETTERS = "lake.lakehouse.dead_letters"

app = typer.Typer(add_completion=False)


@app.command()
def demo(
    scale: Annotated[float, typer.Option(help="Size of the bulk load; 1 is 200,000 rows and more.")] = 1.0,
    seconds: Annotated[int, typer.Option(help="Length of the live workload.")] = 60,
    rate: Annotated[int, typer.Option(help="Transactions a second of the live workload.")] = 100,
) -> None:
    """Load, live traffic, broken records, a killed mirror; then the proof that lake and source are equal."""
    try:
        equal = Demo(StackSettings.load(), scale, seconds, rate).run()
    except (LakehouseError, RuntimeError) as error:
        out.print(Text.assemble(("✗ ", "red"), str(error)))
        raise typer.Exit(2) from None
    raise typer.Exit(0 if equal else 1)


class Demo:
    """One run."""

    def __init__(self, settings: StackSettings, scale: float, seconds: int, rate: int) -> None:
        self._settings, self._scale, self._seconds, self._rate = settings, scale, seconds, rate
        self._watch = Watch(settings)
        self._killed_at: datetime | None = None
        self._began = datetime.now(UTC)

    def run(self) -> bool:
        """Tell the story; whether the lake equals its source."""
        started = datetime.now(UTC)
        self._bulk_load()
        live_from = datetime.now(UTC)
        traffic = self._live()
        live_until = datetime.now(UTC)
        report = self._proof()
        self._time_travel()
        self._dead_letters(started)
        self._sum_up(traffic["row_changes"], live_from, live_until, report)
        return report.equal

    def _bulk_load(self) -> None:
        head("1. Bulk load")
        began = time.monotonic()
        loaded = load(self._scale)
        rows = sum(loaded["rows"].values())
        out.print(f"{rows:,} rows copied into PostgreSQL in {time.monotonic() - began:.1f} s")
        began = time.monotonic()
        self._catch_up("the lake takes them in")
        took = time.monotonic() - began
        out.print(f"visible in the lake {took:.1f} s later ({rows / max(took, 0.1):,.0f} rows/s)")

    def _live(self) -> dict[str, Any]:
        head(f"2. Live: {self._rate} transactions/s for {self._seconds} s")
        traffic = Traffic(self._rate, self._seconds, seed=int(time.time()))
        began = time.monotonic()
        poison_at, kill_at = began + self._seconds * 0.3, began + self._seconds * 0.7
        poisoned = False

        def going() -> bool:
            nonlocal poisoned
            now = time.monotonic()
            if not poisoned and now >= poison_at:
                poisoned = True
                self._send_broken_records()
            if self._killed_at is None and now >= kill_at:
                self._kill_the_mirror()
            return traffic.running

        try:
            follow(self._watch, "live", going)
            summary = traffic.summary()
        finally:
            traffic.stop()
        out.print(f"{summary['transactions']:,} transactions committed; now the lake catches up")
        self._catch_up("the rest arrives")
        return summary

    def _send_broken_records(self) -> None:
        producer = Producer(client_config(self._settings.kafka_bootstrap))
        for value in BROKEN_RECORDS:
            producer.produce(f"{self._settings.source_name}.public.orders", key=b"broken", value=value)
        producer.flush(30)
        warn("!", f"{len(BROKEN_RECORDS)} broken records sent to the topic of orders")

    def _kill_the_mirror(self) -> None:
        self._killed_at = datetime.now(UTC)
        command = [sys.executable, "-m", "services.runner", "kill", "mirror"]
        subprocess.Popen(command, stdout=subprocess.DEVNULL)
        warn("!", "the mirror was killed with SIGKILL, mid-stream; its supervisor brings it back")

    def _catch_up(self, title: str) -> None:
        failed: list[StackError] = []

        def wait() -> None:
            try:
                wait_until_visible(self._settings, CATCH_UP_SECONDS)
            except StackError as error:
                failed.append(error)

        waiting = Thread(target=wait)
        waiting.start()
        follow(self._watch, title, waiting.is_alive)
        waiting.join()
        if failed:
            raise failed[0]

    def _tables(self) -> list[LakeTable]:
        return list(tables(open_catalog(self._settings), self._settings))

    def _proof(self) -> Report:
        head("3. Proof: source and lake, row by row, read by DuckDB")
        report = verify(self._settings)
        print_proof(report)
        return report

    def _time_travel(self) -> None:
        head("4. Time travel")
        orders = next(table for table in self._tables() if table.name()[-1] == "orders")
        pinned = pin(orders)
        history = sorted(orders.snapshots(), key=lambda snapshot: snapshot.timestamp_ms)
        first, last = history[0], history[-1]
        if pinned is None:
            return
        with TemporaryDirectory() as folder, closing(open_duckdb(self._settings, Path(folder), "512MB")) as duckdb:
            moments = []
            for snapshot in (first, last):
                then = pinned_rows(duckdb, replace(pinned, snapshot_id=snapshot.snapshot_id), ["status"])
                counts = duckdb.execute(f"SELECT c0, count(*) FROM {then} GROUP BY c0 ORDER BY c0").fetchall()
                count, by_status = sum(n for _, n in counts), [f"{status} {n:,}" for status, n in counts]
                at = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
                moments.append((f"{at:%H:%M:%S}", str(snapshot.snapshot_id), f"{count:,}", ", ".join(by_status)))
        print_moments(moments)

    def _dead_letters(self, since: datetime) -> None:
        head("5. Dead letters of this run")
        letters = open_catalog(self._settings).load_table(DEAD_LETTERS.removeprefix("lake."))
        found = letters.scan(f"dead_lettered_at >= '{since.isoformat()}'").to_arrow().to_pylist()
        print_letters(found)

    def _draw(self, found: list[LakeTable], since: datetime, until: datetime) -> None:
        rows = {table.name()[-1]: [size for size in sizes_of(table) if size[0] >= self._began] for table in found}
        paths = draw(CHECKOUT / ".lakehouse/demo", measured(found, since, until), rows, self._killed_at)
        out.print(f"pictures                 {', '.join(str(path.relative_to(CHECKOUT)) for path in paths)}")
        console = _console()
        said = f"{console} (accounts in .env: CONSOLE_…_PASSWORD)" if console else "make up PROFILES=observe"
        out.print(f"console                  {said}")

    def _sum_up(self, carried: int, since: datetime, until: datetime, report: Report) -> None:
        head("6. Summary")
        found = self._tables()
        killed = (self._killed_at or until) - timedelta(seconds=SETTLE_SECONDS)
        elapsed = (until - since).total_seconds()
        out.print(f"changes carried live     {carried:,} in {elapsed:.0f} s: {carried / elapsed:,.0f} changes/s")
        out.print(f"freshness, before kill   {_spoken(freshness(found, since, killed))}")
        out.print(f"freshness, with the kill {_spoken(freshness(found, since, until))}")
        out.print("                         (source commit → visible in the lake)")
        print_files([_files(table) for table in found])
        self._draw(found, since, until)
        if report.equal:
            out.print("The lake equals its source.", style="bold green")
        else:
            out.print("The lake differs from its source: see the rows named above.", style="bold red")
        out.print(
            "Next: lakehouse table show orders · lakehouse dlq list · make status · make kill s=kafka && make verify"
        )


class ConsolePort(ServiceSettings):
    """Where the console would answer."""

    console_port: int = 8070


def _console() -> str | None:
    """Return where the console is; None: it doesn't run."""
    port = ConsolePort.load().console_port
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return f"http://127.0.0.1:{port}"
    return None


def _files(table: LakeTable) -> tuple[str, str, str, str]:
    snapshot = table.current_snapshot()
    total = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    data, deletes = total.get("total-data-files", "0"), total.get("total-delete-files", "0")
    return table.name()[-1], data, deletes, str(len(table.snapshots()))


def _spoken(found: Freshness | None) -> str:
    return (
        "nothing measured" if found is None else f"p50 {found.p50:.1f} s, p95 {found.p95:.1f} s ({found.rows:,} rows)"
    )


if __name__ == "__main__":
    app()
