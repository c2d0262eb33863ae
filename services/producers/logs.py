"""Logs of the shop's applications, as a collector sends them: JSON that no registry knows."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any

from services.producers.event import Event, told

SERVICES = ("web", "checkout", "payments", "search", "inventory")
HOSTS_A_SERVICE = 3
LEVELS = (("DEBUG", 10), ("INFO", 80), ("WARN", 7), ("ERROR", 3))
PATHS = ("/", "/products/{id}", "/cart", "/checkout", "/search", "/api/stock", "/api/price")
SAID = {
    "DEBUG": "cache miss", "INFO": "request served", "WARN": "slow answer of a dependency",
    "ERROR": "dependency did not answer",
}  # fmt: skip
LATE_SHARE, BARE_SHARE = 0.02, 0.1


@dataclass
class Logs:
    """The lines of all applications."""

    random: Random
    lines: int = 0

    def at(self, now: datetime) -> Iterator[Event]:
        """Yield the next line."""
        random = self.random
        self.lines += 1
        service = random.choice(SERVICES)
        (level,) = random.choices([name for name, _ in LEVELS], [weight for _, weight in LEVELS])
        failed = level == "ERROR"
        value: dict[str, Any] = {
            "log_id": f"{self.lines}-{random.randbytes(8).hex()}",
            "logged_at": told(now),
            "level": level,
            "service": service,
            "host": f"{service}-{random.randrange(HOSTS_A_SERVICE)}",
            "message": SAID[level],
            "trace_id": random.randbytes(16).hex(),
            "duration_ms": round(random.expovariate(1 / 40) + (2_000 if failed else 0), 3),
            "http": {
                "method": random.choice(("GET", "GET", "GET", "POST")), "path": random.choice(PATHS),
                "status": random.choice((500, 502, 504)) if failed else random.choice((200, 200, 200, 204, 304, 404)),
            },
            "labels": {"region": random.choice(("eu-1", "eu-2")), "version": f"1.{random.randrange(4)}"},
        }  # fmt: skip
        if random.random() < BARE_SHARE:
            # A line that no request has led to.
            value |= {"trace_id": None, "duration_ms": None, "http": None, "message": "job finished"}
        late = random.uniform(1, 20) if random.random() < LATE_SHARE else 0.0
        yield Event(value["host"], value, (), late)
