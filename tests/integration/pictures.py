"""Pictures of every page of the console, and how long each takes, on a stack with data in it.

    python -m tests.integration.pictures docs/pictures

It starts a stack of its own with everything, lets it work for some minutes, and stops it. ``--stack FOLDER`` takes the
one of a folder, and leaves it as it is. It isn't a test, and isn't run by one.
"""

import argparse
import json
import re
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
from PIL import Image
from playwright.sync_api import Browser, expect

from pipelines.specs.load import load_specs
from tests.integration.browser import Tab, chromium
from tests.integration.stack import CHECKOUT, PYTHON, WAIT_SECONDS, Stack, wait_until

WIDTH, TALLEST, MOST_BYTES, COLOURS = 1280, 1500, 200_000, 256
TIMES = 30
MINUTES = 5
BROKEN = (b"this is not Avro", b"\x00\x7f\xff\xff\xfe of a schema that nobody has", b"\x00\x00")
# Without what is sold while the pictures are taken: more than on all days before.
DRAWN = """SELECT day, sum(revenue) AS revenue, avg(sum(revenue)) OVER (ORDER BY day ROWS 6 PRECEDING) AS week
FROM lake.marts.daily_sales WHERE day < DATE '2026-01-01' GROUP BY day ORDER BY day"""
PAGES = {
    "overview": "/", "tables": "/tables", "table": "/tables/shop.orders", "streams": "/streams", "letters": "/letters",
    "lineage": "/lineage?at=shop.customers", "quality": "/quality", "data-docs": "/quality/shop.orders/docs",
    "operations": "/operations", "alerts": "/alerts", "sql": "/sql",
}  # fmt: skip


class Shown(Stack):
    """A stack as it is shipped: with the specs and contracts of the checkout, and no others."""

    def prepare(self) -> None:
        super().prepare()
        for folder in ("pipelines/specs", "quality/contracts"):
            shutil.rmtree(self.folder / folder)
            shutil.copytree(CHECKOUT / folder, self.folder / folder, ignore=shutil.ignore_patterns("__pycache__"))
        with (self.folder / ".env").open("a", encoding="utf-8") as file:
            file.write("CHECK_SECONDS=900\n")

    def up(self) -> str:
        return self._run([PYTHON, "-m", "services.runner", "up", "--profiles", "workload,events,observe"], 1800)

    def work(self) -> None:
        """Have something to see: derived tables, checks, dead letters, an armed fault, an hour's metrics in part."""
        wait_until(lambda: self.catalog().table_exists("shop.orders"))
        self.produce("orders", *BROKEN)
        ends = time.monotonic() + MINUTES * 60
        # Whoever asks for a check of a table that isn't there yet is told so, until it is checked again.
        derived = {f"lake.{name}" for name in load_specs().derived}
        wait_until(lambda: derived <= {each["table"] for each in self.lakehouse("table", "list")["tables"]})
        self.own("check", ok=(0, 1))
        wait_until(lambda: time.monotonic() > ends, MINUTES * 60 + WAIT_SECONDS)


@contextmanager
def running(folder: Path | None) -> Iterator[Stack]:
    """A stack with data in it."""
    if folder is not None:
        yield Shown(folder, "process")
        return
    with TemporaryDirectory() as scratch:
        stack = Shown(Path(scratch), "process")
        stack.prepare()
        try:
            stack.up()
            stack.work()
            yield stack
        finally:
            stack.make("down")


def pictures(stack: Stack, browser: Browser, folder: Path) -> None:
    """Write a picture of each page."""
    base = f"http://127.0.0.1:{stack.setting('CONSOLE_PORT')}"
    operator, admin = (
        Tab(browser, base, role, stack.setting(f"CONSOLE_{role.upper()}_PASSWORD"), WIDTH)
        for role in ("operator", "admin")
    )
    _silence(operator, "DiskFills")
    for name, path in PAGES.items():
        tab = admin if name == "operations" else operator
        tab.open(path) if name != "data-docs" else tab.page.goto(base + path)
        if name == "table":
            tab.page.get_by_role("button", name="Show rows").click()
            expect(tab.page.locator("#rows table")).to_be_visible()
        if name == "lineage":
            expect(tab.page.locator("#graph svg")).to_be_visible()
        if name == "sql":
            tab.page.get_by_label("Query").fill(DRAWN)
            tab.page.get_by_role("button", name="Run").click()
            expect(tab.page.locator("#answer canvas")).to_be_visible()
        _keep(tab, folder, name)
    stack.faults.on("before-expiry", "pause")
    admin.open("/operations")
    section = admin.page.locator("#faults")
    expect(section.get_by_role("row", name="before-expiry")).to_contain_text("armed")
    section.screenshot(path=folder / "console-faults.png")
    _shrink(folder / "console-faults.png", 700)
    stack.faults.off("before-expiry")
    operator.open("/letters?topic=shop.public.orders")
    operator.page.get_by_role("link", name=re.compile("shop.public.orders:")).first.click()
    expect(operator.page.get_by_role("heading", name="Record")).to_be_visible()
    _keep(operator, folder, "letter")
    for tab in (operator, admin):
        tab.close()


def _silence(tab: Tab, alert: str) -> None:
    """Silence an alert that is about the machine on which the pictures are taken, if it fires."""
    tab.open("/alerts")
    form = tab.page.locator("article", has_text=alert).locator("form")
    if form.count():
        form.get_by_label("Why").fill("the machine's disk is shared with others")
        form.get_by_role("button").click()
        expect(form).to_have_count(0)


def _keep(tab: Tab, folder: Path, name: str) -> None:
    tab.page.mouse.move(0, 0)
    tab.picture(folder, f"console-{name}")
    _shrink(folder / f"console-{name}.png")


def _shrink(path: Path, tallest: int = TALLEST) -> None:
    whole = Image.open(path).convert("RGB")
    cut = whole.crop((0, 0, whole.width, min(whole.height, tallest)))
    cut.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    assert path.stat().st_size < MOST_BYTES, f"{path} has {path.stat().st_size:,} bytes"


def times(stack: Stack) -> dict[str, tuple[float, float]]:
    """Page to the median and the 95th percentile of its time, in milliseconds, as an operator's client sees it."""
    base = f"http://127.0.0.1:{stack.setting('CONSOLE_PORT')}"
    found = {}
    with httpx.Client(base_url=base, headers={"accept": "text/html"}, trust_env=False, timeout=60) as client:
        password = stack.setting("CONSOLE_OPERATOR_PASSWORD")
        assert client.post("/login", data={"name": "operator", "password": password}).status_code == 303
        for name, path in PAGES.items():
            took = sorted(_milliseconds(lambda path=path: client.get(path)) for _ in range(TIMES))  # type: ignore[misc]
            found[name] = (statistics.median(took), took[round(TIMES * 0.95) - 1])
    return found


def _milliseconds(ask: Callable[[], httpx.Response]) -> float:
    began = time.perf_counter()
    answer = ask()
    assert answer.status_code == 200, answer.text
    return (time.perf_counter() - began) * 1000


def main() -> None:
    """Take the pictures, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--stack", type=Path)
    asked = parser.parse_args()
    with running(asked.stack) as stack, chromium() as browser:
        pictures(stack, browser, asked.folder)
        for name, (median, late) in times(stack).items():
            print(json.dumps({"page": name, "p50_ms": round(median, 1), "p95_ms": round(late, 1), "requests": TIMES}))


if __name__ == "__main__":
    main()
