"""`make chaos`: load, schema changes and faults at random, on a stack of its own. The seed decides what is done."""

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated

import typer
from rich.console import Console
from tenacity import RetryError

from pipelines.failpoints import FAILPOINTS
from services.faults.switch import NETWORK
from tests.integration.stack import PROXIES, Stack, wait_until

SERVICES = ("mirror", "source-db", "metadata-db", "object-store", "kafka", "schema-registry", "connect", "catalog",
            "capture")  # fmt: skip
TABLES = ("customers", "orders", "order_items", "payments", "products")
BURST = "UPDATE orders SET status = status WHERE order_id IN (SELECT order_id FROM orders ORDER BY order_id LIMIT {})"
# Of a round, after which everything is compared.
ACTIONS_A_ROUND = 5
RATE = 15

app = typer.Typer(add_completion=False)
out = Console(highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Action:
    """Something to do to the stack. ``lasts``: transactions of the workload until it is undone, if it is."""

    kind: str
    what: str
    lasts: int


def actions(seed: int) -> Iterator[Action]:
    """What is done, one after the other, without end: the same for the same seed."""
    chance = random.Random(seed)
    columns: list[tuple[str, str]] = []
    for number in count():
        kind = chance.choices(("kill", "failpoint", "network", "schema", "burst", "poison"), (4, 4, 4, 3, 1, 1))[0]
        what = {
            "kill": lambda: chance.choice(SERVICES),
            "failpoint": lambda: f"{chance.choice(list(FAILPOINTS))} {chance.choice(('kill', 'kill', 'error'))}",
            "network": lambda: chance.choice(list(NETWORK)),
            "schema": lambda number=number: _change(chance, columns, number),
            "burst": lambda: BURST.format(chance.randrange(500, 5000)),
            "poison": lambda: chance.choice(TABLES),
        }[kind]()
        yield Action(kind, what, chance.randrange(20, 300))


def _change(chance: random.Random, columns: list[tuple[str, str]], number: int) -> str:
    """A statement that changes the schema of a table in use, in columns that the workload doesn't know of."""
    if columns and chance.random() < 0.4:
        table, column = columns.pop(chance.randrange(len(columns)))
        return f"ALTER TABLE {table} DROP COLUMN {column}"
    if columns and chance.random() < 0.4:
        place = chance.randrange(len(columns))
        table, column = columns[place]
        columns[place] = (table, f"renamed_{number}")
        return f"ALTER TABLE {table} RENAME COLUMN {column} TO renamed_{number}"
    table, kind = chance.choice(TABLES), chance.choice(("int", "text DEFAULT 'as it was'", "bigint NOT NULL DEFAULT 7"))
    columns.append((table, f"extra_{number}"))
    return f"ALTER TABLE {table} ADD COLUMN extra_{number} {kind}"


@dataclass
class Chaos:
    """One run against one stack. ``acted``: the actions begun. ``carried``: changes that the ledgers account for."""

    stack: Stack
    say: Callable[[str], None]
    done: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    acted: int = 0
    carried: int = 0

    def round(self, plan: Iterator[Action]) -> None:
        """Some actions under load; then, with everything well again, the comparison. Raises AssertionError."""
        for action in islice(plan, ACTIONS_A_ROUND):
            self.say(f"{action.kind}: {action.what}; {action.lasts} transactions")
            self.acted += 1
            self._act(action)
            self.done[action.kind] += 1
        self.done["failpoint that fired"] += sum(self.stack.fired(name) for name in FAILPOINTS)
        for name in FAILPOINTS:
            self.stack.faults.off(name)
        self.stack.up()
        self.stack.assert_equal()
        self.rounds += 1
        tables = self.stack.lakehouse("verify", "--ledger")["tables"]
        self.carried = sum(table["counts"]["merged"] + table["counts"]["superseded"] for table in tables)
        self.say(f"equal, after round {self.rounds}")

    def _act(self, action: Action) -> None:
        # Where its database is killed, the workload ends, and another one goes on.
        with self.stack.workload(RATE, 2 * self.acted, survives=action.what != "source-db"):
            self._wait(10)
            self._do(action)
        try:
            with self.stack.workload(RATE, 2 * self.acted + 1):
                self._wait(action.lasts)
        finally:
            if action.kind == "network":
                self.stack.faults.off(action.what)

    def _wait(self, transactions: int) -> None:
        until = self.stack.transactions() + transactions
        wait_until(lambda: self.stack.transactions() > until)

    def _do(self, action: Action) -> None:
        match action.kind:
            case "kill":
                self.stack.make("kill", f"s={action.what}")
            case "failpoint":
                self.stack.faults.on(*action.what.split())
            case "network":
                self.stack.faults.on(action.what)
            case "poison":
                self.stack.produce(action.what, b"not avro")
            case _:
                self.stack.sql(action.what)


@app.command()
def chaos(
    seed: Annotated[int | None, typer.Option(help="Decides what is done; at random if not given.")] = None,
    minutes: Annotated[float, typer.Option(min=0.1, help="No round begins later.")] = 10.0,
) -> None:
    """Run until the time is up. Exit code 1 if the lake differs from its source, or the stack didn't heal."""
    seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    began = time.monotonic()

    def say(text: str) -> None:
        out.print(f"{time.monotonic() - began:7.1f} s  {text}")

    say(f"seed {seed}; again: make chaos SEED={seed} MINUTES={minutes:g}")
    folder = Path(mkdtemp(prefix="lakehouse-chaos-"))
    stack = Stack(folder, "process", PROXIES)
    stack.prepare()
    difference = None
    run = Chaos(stack, say)
    try:
        stack.up()
        stack.run_shop("load", "--scale", "0.02")
        stack.assert_equal()
        plan = actions(seed)
        say("equal, before anything is done")
        while difference is None and time.monotonic() - began < minutes * 60:
            try:
                run.round(plan)
            except (AssertionError, RetryError) as error:
                difference = f"{type(error).__name__}: {error}\n{stack.diagnosis()}"
    finally:
        stack.make("down")
    what = ", ".join(f"{count} {kind}" for kind, count in sorted(run.done.items()))
    say(f"{(time.monotonic() - began) / 60:.1f} minutes, {run.rounds} rounds: {what}; {run.carried} changes carried")
    if difference is not None:
        out.print(
            f"After {run.acted} actions of seed {seed}: {difference}\nIts state is kept in {folder}",
            markup=False,
        )
        raise typer.Exit(1)
    say("no difference found")
    shutil.rmtree(folder)


if __name__ == "__main__":
    app(prog_name="python -m tests.chaos.runner")
