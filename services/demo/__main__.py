"""The demo's story, step by step. Exit code 1 if anything differs."""

import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Annotated, Any

import typer
from confluent_kafka import Producer
from pyiceberg.table import Table as LakeTable
from rich.console import Console
from rich.table import Table

from pipelines.kafka.client import client_config
from services.demo.freshness import Freshness, freshness
from services.demo.shop import Traffic, load
from services.demo.watch import Watch, follow
from services.stack.duckdb_session import open_duckdb
from services.stack.endpoints import StackSettings
from services.stack.errors import LakehouseError, StackError
from services.stack.lake import open_catalog, pin, tables
from services.stack.lake_files import pinned_rows
from services.stack.position import wait_until_visible
from services.verify.report import Report
from services.verify.verification import verify

BROKEN_RECORDS = (b"this is not Avro", b"\x00\x7f\xff\xff\xfe an unknown schema", b"\x00\x00")
CATCH_UP_SECONDS = 600
# Changes this close before the kill may have been in the batch that was killed.
SETTLE_SECONDS = 20
DEAD_LETTERS = "lake.lakehouse.dead_letters"

app = typer.Typer(add_completion=False)
out = Console(highlight=False, width=None if sys.stdout.isatty() else 160)


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
        out.print(f"[red]✗[/] {error}")
        raise typer.Exit(2) from None
    raise typer.Exit(0 if equal else 1)


class Demo:
    """One run."""

    def __init__(self, settings: StackSettings, scale: float, seconds: int, rate: int) -> None:
        self._settings, self._scale, self._seconds, self._rate = settings, scale, seconds, rate
        self._watch = Watch(settings)
        self._killed_at: datetime | None = None

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
        out.rule("1. Bulk load", align="left")
        began = time.monotonic()
        loaded = load(self._scale)
        rows = sum(loaded["rows"].values())
        out.print(f"{rows:,} rows copied into PostgreSQL in {time.monotonic() - began:.1f} s")
        began = time.monotonic()
        self._catch_up("the lake takes them in")
        took = time.monotonic() - began
        out.print(f"visible in the lake {took:.1f} s later ({rows / max(took, 0.1):,.0f} rows/s)")

    def _live(self) -> dict[str, Any]:
        out.rule(f"2. Live: {self._rate} transactions/s for {self._seconds} s", align="left")
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
            follow(self._watch, out, "live", going)
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
        out.print(f"  [yellow]![/] {len(BROKEN_RECORDS)} broken records sent to the topic of orders")

    def _kill_the_mirror(self) -> None:
        self._killed_at = datetime.now(UTC)
        command = [sys.executable, "-m", "services.runner", "kill", "mirror"]
        subprocess.Popen(command, stdout=subprocess.DEVNULL)
        out.print("  [yellow]![/] the mirror was killed with SIGKILL, mid-stream; its supervisor brings it back")

    def _catch_up(self, title: str) -> None:
        failed: list[StackError] = []

        def wait() -> None:
            try:
                wait_until_visible(self._settings, CATCH_UP_SECONDS)
            except StackError as error:
                failed.append(error)

        waiting = Thread(target=wait)
        waiting.start()
        follow(self._watch, out, title, waiting.is_alive)
        waiting.join()
        if failed:
            raise failed[0]

    def _tables(self) -> list[LakeTable]:
        return list(tables(open_catalog(self._settings), self._settings))

    def _proof(self) -> Report:
        out.rule("3. Proof: source and lake, row by row, read by DuckDB", align="left")
        report = verify(self._settings)
        grid = Table("table")
        for name in ("rows in the source", "rows in the lake", "columns compared", "differing", "verdict"):
            grid.add_column(name, justify="right")
        for table in report.tables:
            differing = table.differing + table.missing + table.extra + table.duplicates
            verdict = "[green]equal[/]" if table.equal else "[red]differs[/]"
            cells = (table.rows_source, table.rows_lake, table.columns_compared, differing)
            grid.add_row(table.table, *(f"{cell:,}" for cell in cells), verdict)
        out.print(grid)
        for table in report.tables:
            for name, why in table.not_compared.items():
                out.print(f"  not compared: {table.table}.{name}: {why}")
            for problem in table.problems:
                out.print(f"  [red]✗[/] {table.table}: {problem}")
            for example in table.examples:
                out.print(f"  [red]✗[/] {table.table} {example.kind}: {example.key} {example.values}")
        return report

    def _time_travel(self) -> None:
        out.rule("4. Time travel", align="left")
        orders = next(table for table in self._tables() if table.name()[-1] == "orders")
        pinned = pin(orders)
        history = sorted(orders.snapshots(), key=lambda snapshot: snapshot.timestamp_ms)
        first, last = history[0], history[-1]
        if pinned is None:
            return
        with TemporaryDirectory() as folder, closing(open_duckdb(self._settings, Path(folder), "512MB")) as duckdb:
            grid = Table("orders as of", "snapshot", "orders", "by status")
            for snapshot in (first, last):
                then = pinned_rows(duckdb, replace(pinned, snapshot_id=snapshot.snapshot_id), ["status"])
                counts = duckdb.execute(f"SELECT c0, count(*) FROM {then} GROUP BY c0 ORDER BY c0").fetchall()
                count, by_status = sum(n for _, n in counts), [f"{status} {n:,}" for status, n in counts]
                at = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
                grid.add_row(f"{at:%H:%M:%S}", str(snapshot.snapshot_id), f"{count:,}", ", ".join(by_status))
            out.print(grid)

    def _dead_letters(self, since: datetime) -> None:
        out.rule("5. Dead letters of this run", align="left")
        letters = open_catalog(self._settings).load_table(DEAD_LETTERS.removeprefix("lake."))
        found = letters.scan(f"dead_lettered_at >= '{since.isoformat()}'").to_arrow().to_pylist()
        grid = Table("position", "stage", "reason", "message")
        for letter in sorted(found, key=lambda row: (row["topic"], row["partition"], row["offset"])):
            position = f"{letter['topic']}:{letter['partition']}:{letter['offset']}"
            grid.add_row(position, letter["stage"], letter["reason"], letter["message"])
        out.print(grid)

    def _sum_up(self, carried: int, since: datetime, until: datetime, report: Report) -> None:
        out.rule("6. Summary", align="left")
        found = self._tables()
        killed = (self._killed_at or until) - timedelta(seconds=SETTLE_SECONDS)
        elapsed = (until - since).total_seconds()
        out.print(f"changes carried live     {carried:,} in {elapsed:.0f} s: {carried / elapsed:,.0f} changes/s")
        out.print(f"freshness, before kill   {_spoken(freshness(found, since, killed))}")
        out.print(f"freshness, with the kill {_spoken(freshness(found, since, until))}")
        out.print("                         (source commit → visible in the lake)")
        grid = Table("table")
        for name in ("data files", "delete files", "snapshots"):
            grid.add_column(name, justify="right")
        for table in found:
            snapshot = table.current_snapshot()
            total = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
            cells = (total.get("total-data-files", "0"), total.get("total-delete-files", "0"))
            grid.add_row(table.name()[-1], *cells, str(len(table.snapshots())))
        out.print(grid)
        if report.equal:
            out.print("[bold green]The lake equals its source.[/]")
        else:
            out.print("[bold red]The lake differs from its source: see the rows named above.[/]")
        out.print(
            "Next: lakehouse table show orders · lakehouse dlq list · make status · make kill s=kafka && make verify"
        )


def _spoken(found: Freshness | None) -> str:
    return (
        "nothing measured" if found is None else f"p50 {found.p50:.1f} s, p95 {found.p95:.1f} s ({found.rows:,} rows)"
    )


if __name__ == "__main__":
    app()
