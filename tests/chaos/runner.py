"""`make chaos`: load, schema changes and faults at random, on a stack of its own. The seed decides what is done."""

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated

import typer
from rich.console import Console
from tenacity import RetryError

from tests.chaos.plan import Action, Cause, actions, missed
from tests.integration.stack import PROXIES, WAIT_SECONDS, Stack, wait_until

# Of a round, after which everything is compared.
ACTIONS_A_ROUND = 5
RATE = 15
# What a mirror that just comes back may take to pass a failpoint.
FIRES_SECONDS = 300

app = typer.Typer(add_completion=False)
out = Console(highlight=False, soft_wrap=True)


@dataclass
class Chaos:
    """One run against one stack. ``acted``: the actions begun. ``carried``: changes that the ledgers account for.

    ``armed``: how often each failpoint was set, ``fired``: how often the mirror came to it. ``pending``: set now.
    """

    stack: Stack
    say: Callable[[str], None]
    done: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    acted: int = 0
    carried: int = 0
    armed: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    pending: set[str] = field(default_factory=set)

    def round(self, plan: Iterator[Action]) -> None:
        """Some actions under load; then, with everything well again, the comparison. Raises AssertionError."""
        for action in islice(plan, ACTIONS_A_ROUND):
            self.say(f"{action.kind}: {action.what}; {action.lasts} transactions")
            self.acted += 1
            self._act(action)
            self.done[action.kind] += 1
        for name in sorted(self.pending):
            self._settle(name)
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

    def failpoints(self) -> str:
        """How many of the failpoints that were set have fired, each by itself."""
        of_each = ", ".join(f"{name} {self.fired[name]}/{times}" for name, times in sorted(self.armed.items()))
        return f"failpoints fired/set: {self.fired.total()}/{self.armed.total()}" + (f" ({of_each})" if of_each else "")

    def _set(self, failpoint: str, how: str, cause: Cause) -> None:
        """Set a failpoint, and cause what it waits for. One that nothing passes in time stays set for the round."""
        if cause.before:
            self.stack.sql(*cause.before)
            self.stack.lakehouse("wait", "--timeout", str(WAIT_SECONDS))
        if failpoint in self.pending:
            self._settle(failpoint)
        self.stack.faults.on(failpoint, how)
        self.armed[failpoint] += 1
        self.pending.add(failpoint)
        if cause.kind == "poison":
            self.stack.produce(cause.table, b"not avro")
        elif cause.kind == "upkeep":
            self.stack.lakehouse("maintain", cause.table, "--now", ok=(0, 1))
        self.stack.sql(*cause.statements)
        try:
            wait_until(lambda: self.stack.fired(failpoint), FIRES_SECONDS)
        except RetryError:
            self.say(f"{failpoint} hasn't fired in {FIRES_SECONDS} s")
        else:
            self._settle(failpoint)

    def _settle(self, failpoint: str) -> None:
        """Take note of whether a failpoint has fired, and take it back."""
        self.fired[failpoint] += self.stack.fired(failpoint)
        self.stack.faults.off(failpoint)
        self.pending.discard(failpoint)

    def _wait(self, transactions: int) -> None:
        until = self.stack.transactions() + transactions
        wait_until(lambda: self.stack.transactions() > until)

    def _do(self, action: Action) -> None:
        match action.kind:
            case "kill":
                self.stack.make("kill", f"s={action.what}")
            case "failpoint":
                assert action.cause is not None
                self._set(*action.what.split(), action.cause)
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
    """Run until the time is up.

    Exit code 1 if the lake differs from its source, the stack didn't heal, or most failpoints set never fired.
    """
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
    say(run.failpoints())
    if difference is None and (left := missed(run.armed, run.fired)):
        difference = f"most failpoints never fired, so that little was tried: {', '.join(left)}"
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
