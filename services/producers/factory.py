"""A factory floor: equipment with sensors, whose values drift until it fails and is mended; three shifts a day.

Gateways gather readings and send them late and out of order, some twice; and one device is broken, and sends nonsense.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from services.producers.event import Event

LINES = {"press": 4, "mill": 4, "oven": 3, "packer": 3}
BROKEN = "press-4"
# Sensor to its unit, what it shows in the middle, how far it swings, and how much a worn machine adds.
SENSORS = {
    "temperature": ("°C", 62.0, 6.0, 45.0), "vibration": ("mm/s", 2.1, 0.4, 6.0), "pressure": ("bar", 5.5, 0.5, -2.0),
    "power": ("kW", 11.0, 3.0, 5.0),
}  # fmt: skip
SWING_SECONDS, NOISE = 300.0, 0.03
WEAR_A_READING, FAILED_READINGS = 0.0005, 120
LATE_SHARE, VERY_LATE_SHARE, TWICE_SHARE = 0.02, 0.001, 0.005
NONSENSE_SHARE = 0.2


@dataclass
class Machine:
    """One machine. ``wear``: from 0 to 1, when it fails; ``down``: readings for which it stands still."""

    name: str
    line: str
    wear: float
    down: int = 0
    sequence: int = 0


@dataclass
class Factory:
    """The readings of all machines."""

    random: Random
    machines: list[Machine] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Give each machine its age."""
        if not self.machines:
            self.machines = [
                Machine(f"{line}-{number}", line, self.random.random())
                for line, count in LINES.items()
                for number in range(1, count + 1)
            ]

    def at(self, now: datetime) -> Iterator[Event]:
        """Yield the next reading, and once more what is sent twice."""
        random = self.random
        machine, sensor = random.choice(self.machines), random.choice(list(SENSORS))
        self._age(machine)
        reading = self._value(machine, sensor, now)
        broken = machine.name == BROKEN and random.random() < NONSENSE_SHARE
        value = self._nonsense(reading) if broken else reading
        delay = 0.0
        if (chance := random.random()) < LATE_SHARE:
            delay = random.uniform(600, 2_400) if chance < VERY_LATE_SHARE else random.uniform(5, 90)
        yield Event(machine.name, value, (("gateway", f"gw-{machine.line}".encode()),), delay)
        if random.random() < TWICE_SHARE:
            yield Event(machine.name, value, (("gateway", b"gw-retry"),), delay + random.uniform(0.5, 20))

    def _age(self, machine: Machine) -> None:
        machine.sequence += 1
        if machine.down:
            machine.down -= 1
            machine.wear = 0.0 if not machine.down else machine.wear
            return
        machine.wear += WEAR_A_READING * self.random.random()
        if machine.wear >= 1:
            machine.down = FAILED_READINGS

    def _value(self, machine: Machine, sensor: str, now: datetime) -> dict[str, Any]:
        unit, middle, swing, worn = SENSORS[sensor]
        phase = 2 * math.pi * now.timestamp() / SWING_SECONDS + sum(map(ord, machine.name))
        shown = middle + swing * math.sin(phase) + worn * machine.wear**3 + middle * NOISE * self.random.gauss(0, 1)
        quality = "bad" if machine.down else "suspect" if machine.wear > 0.9 else "good"
        return {
            "reading_id": f"{machine.name}/{sensor}/{machine.sequence}",
            "equipment_id": machine.name,
            "line": machine.line,
            "sensor": sensor,
            "value": 0.0 if machine.down else round(shown, 4),
            "unit": unit,
            "quality": quality,
            "read_at": now,
            "shift": ("night", "early", "late")[now.astimezone(UTC).hour // 8],
            "sequence": machine.sequence,
        }

    def _nonsense(self, value: dict[str, Any]) -> dict[str, Any] | bytes:
        """Return bytes that are nothing, a number that can't be, or a time that isn't."""
        kind = self.random.randrange(3)
        if kind == 0:
            return b"\xff" + self.random.randbytes(12)
        if kind == 1:
            return {**value, "value": self.random.choice((float("nan"), 1e300, -273_150.0))}
        return {
            **value,
            "read_at": self.random.choice(
                (datetime(1970, 1, 1, tzinfo=UTC), value["read_at"] + timedelta(days=20_000))
            ),
        }
