"""Debian's Chromium, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
# What axe finds of this is a fault; of less there is nothing to be sure of.
GRAVE = ("serious", "critical")

# What a page shows after an action comes when the action is done, on a busy machine, too.
expect.set_options(timeout=60_000)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    assert CHROMIUM, "these tests need Chromium: apt-get install chromium, or say where it is in CHROMIUM"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """A page of somebody who has signed in. ``said``: what its console complained of."""

    def __init__(self, browser: Browser, base: str, role: str, password: str, width: int = 1280, theme: str = "light"):
        self.base = base
        self._context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        self.page: Page = self._context.new_page()
        self.said: list[str] = []
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.goto(f"{base}/login")
        self.page.select_option("select[name=name]", role)
        self.page.fill("input[name=password]", password)
        self.page.click("button")
        self.page.wait_for_url(lambda url: urlsplit(url).path == "/")

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.said.append(text)

    def open(self, path: str) -> None:
        """Open a page, and wait until it has all that it asks for at once."""
        self.page.goto(self.base + path)
        self.page.wait_for_load_state("load")
        # Some parts are asked for once somebody comes to them.
        self.page.wait_for_function(
            "() => { scrollTo(0, document.body.scrollHeight); return !document.querySelector('.htmx-request, .wait') }",
            timeout=60_000,
        )
        self.page.evaluate("scrollTo(0, 0)")

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        wider: int = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return wider

    def barriers(self) -> list[str]:
        """What keeps people out, by axe: rule and place."""
        found = Axe().run(self.page).response["violations"]
        return [f"{each['id']}: {each['nodes'][0]['target']}" for each in found if each["impact"] in GRAVE]

    def without_policy(self) -> None:
        """Load the page again without its policy: axe needs scripts, which a sandbox forbids."""

        def bare(route: Route) -> None:
            answer = route.fetch()
            kept = {name: value for name, value in answer.headers.items() if name != "content-security-policy"}
            route.fulfill(response=answer, headers=kept)

        self.page.route(self.page.url, bare)
        self.page.reload()
        self.page.unroute(self.page.url)

    def picture(self, folder: Path, name: str) -> None:
        """Keep a picture of all of the page."""
        folder.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=folder / f"{name}.png", full_page=True)

    def close(self) -> None:
        """Close it."""
        self._context.close()
