"""A clickstream: people look at the shop's products, come from campaigns, and log in at some time or never.

A browser is anonymous until somebody logs in with it; from then on it is that customer's, in later sessions too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

from services.producers.event import Event, told

MOST_SESSIONS, MOST_BROWSERS = 200, 2_000
EVENTS_A_SESSION = 9
KNOWN_SHARE, CAMPAIGN_SHARE, RETURN_SHARE = 0.35, 0.4, 0.5
# Shares of events that come late, come twice, and have the clock of a phone that is wrong.
LATE_SHARE, TWICE_SHARE, WRONG_CLOCK_SHARE = 0.01, 0.005, 0.0005
CAMPAIGNS = (
    ("google", "cpc", "spring_sale"), ("google", "cpc", "brand"), ("newsletter", "email", "weekly"),
    ("instagram", "social", "new_arrivals"), ("partner", "affiliate", "reviews"), ("tiktok", "social", "unboxing"),
)  # fmt: skip
REFERRERS = ("https://www.google.com/", "https://duckduckgo.com/", "https://news.example.org/gear", None, None)
DEVICES = (
    ("phone", "iOS", 390, 844), ("phone", "Android", 412, 915), ("desktop", "Windows", 1920, 1080),
    ("desktop", "macOS", 1512, 982), ("tablet", "iPadOS", 834, 1194),
)  # fmt: skip
EXPERIMENTS = (("checkout", ("one_page", "steps")), ("search", ("plain", "suggest")), ("banner", ("off", "on")))
WORDS = ("kettle", "lamp", "desk", "tent", "jacket", "wireless", "gift", "größe 42", "sale", "notebook")
# What follows a step of a session, by weight.
NEXT = {
    "page_view": (("product_view", 5), ("search", 3), ("page_view", 2), ("identify", 1)),
    "search": (("product_view", 7), ("search", 2), ("page_view", 1)),
    "product_view": (("product_view", 4), ("add_to_cart", 2), ("page_view", 2), ("search", 1), ("identify", 1)),
    "add_to_cart": (("product_view", 3), ("identify", 3), ("checkout", 2), ("page_view", 1)),
    "identify": (("checkout", 3), ("product_view", 3), ("page_view", 1)),
    "checkout": (("page_view", 1),),
}


@dataclass
class Browser:
    """A browser, and whose it is once somebody has logged in with it."""

    anonymous_id: str
    device: tuple[str, str, int, int]
    customer: int | None = None


@dataclass
class Session:
    """One visit."""

    session_id: str
    browser: Browser
    referrer: str | None
    campaign: tuple[str, str, str] | None
    experiments: list[dict[str, str]]
    step: str = "page_view"
    product: int | None = None
    seen: int = 0


@dataclass
class Clicks:
    """The clicks of all visits. ``customers``, ``products``: the shop's keys, of which any may be empty."""

    random: Random
    customers: Sequence[int]
    products: Sequence[int]
    sessions: list[Session] = field(default_factory=list)
    browsers: list[Browser] = field(default_factory=list)

    def at(self, now: datetime) -> Iterator[Event]:
        """Yield the next click, and once more what is sent twice."""
        random = self.random
        session = self._session()
        if session.seen:
            steps, weights = zip(*NEXT[session.step], strict=True)
            session.step = random.choices(steps, weights)[0]
        session.seen += 1
        value = self._value(session, now)
        late = random.uniform(5, 900) if random.random() < LATE_SHARE else 0.0
        event = Event(value["anonymous_id"], value, (("producer", b"web"),), late)
        yield event
        if random.random() < TWICE_SHARE:
            yield Event(event.key, event.value, event.headers, late + random.uniform(0.1, 30))
        if random.random() < 1 / EVENTS_A_SESSION:
            self.sessions.remove(session)

    def _session(self) -> Session:
        random = self.random
        if self.sessions and (len(self.sessions) >= MOST_SESSIONS or random.random() > 1 / EVENTS_A_SESSION):
            return random.choice(self.sessions)
        session = Session(
            session_id=_uuid(random), browser=self._browser(), referrer=random.choice(REFERRERS),
            campaign=random.choice(CAMPAIGNS) if random.random() < CAMPAIGN_SHARE else None,
            experiments=[{"name": name, "variant": random.choice(variants)}
                         for name, variants in EXPERIMENTS if random.random() < 0.6],
        )  # fmt: skip
        self.sessions.append(session)
        return session

    def _browser(self) -> Browser:
        random = self.random
        if self.browsers and random.random() < RETURN_SHARE:
            return random.choice(self.browsers)
        browser = Browser(_uuid(random), random.choice(DEVICES))
        if self.customers and random.random() < KNOWN_SHARE:
            browser.customer = random.choice(self.customers)
        self.browsers.append(browser)
        del self.browsers[:-MOST_BROWSERS]
        return browser

    def _value(self, session: Session, now: datetime) -> dict[str, Any]:
        random, browser, step = self.random, session.browser, session.step
        if step == "identify" and browser.customer is None and self.customers:
            browser.customer = random.choice(self.customers)
        if step == "product_view" and self.products:
            session.product = random.choice(self.products)
        product = session.product if step in ("product_view", "add_to_cart") else None
        happened = now + timedelta(days=400) if random.random() < WRONG_CLOCK_SHARE else now
        kind, system, width, height = browser.device
        return {
            "event_id": _uuid(random),
            "event_type": step,
            "occurred_at": told(happened),
            "session_id": session.session_id,
            "anonymous_id": browser.anonymous_id,
            "customer_id": browser.customer,
            "page": {"path": _path(step, product), "title": step.replace("_", " ").title()},
            "referrer": session.referrer if session.seen == 1 else None,
            "campaign": session.campaign
            and dict(zip(("source", "medium", "name"), session.campaign, strict=True)),
            "product_id": product,
            "search": random.choice(WORDS) if step == "search" else None,
            "device": {"kind": kind, "os": system, "screen": {"width": width, "height": height}},
            "experiments": session.experiments,
        }  # fmt: skip


def _path(step: str, product: int | None) -> str:
    return (
        f"/products/{product}"
        if product is not None
        else {"page_view": "/", "identify": "/login"}.get(step, f"/{step}")
    )


def _uuid(random: Random) -> str:
    return str(UUID(bytes=random.randbytes(16), version=4))
