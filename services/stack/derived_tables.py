"""Derived tables, by what people call them; and Spark's work on them, beside the process that keeps them."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence

from pipelines.specs.load import Specs
from services.stack.errors import LakehouseError
from services.stack.lake import called

COMMAND = (".lakehouse/toolchain/venv/bin/python", "-m", "pipelines.derived")


class NoSuchDerivedTable(LakehouseError):
    """No spec with ``kind: derived`` has this table."""


class NotComputed(LakehouseError):
    """What was asked for couldn't be computed."""


def named(specs: Specs, names: Sequence[str]) -> list[str]:
    """Return the derived tables that people call so; all, if none is named. Raises NoSuchDerivedTable."""
    chosen = []
    for name in names:
        found = [table for table in specs.derived if name in called(table)]
        if not found:
            known = ", ".join(sorted(specs.derived)) or "none"
            raise NoSuchDerivedTable(f"{name} is no derived table (known: {known}).")
        chosen += found
    return chosen or sorted(specs.derived)


def compute(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the lines that `python -m pipelines.derived` prints, beside the streams' process. Raises NotComputed."""
    command = [sys.executable, "-m", "services.runner", "run", "streams", "--", *COMMAND, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        yield from process.stdout
        said = process.stderr.read()
    if process.returncode:
        raise NotComputed(_reason(said))


def _reason(said: str) -> str:
    """Return why it ended, of what was printed beside the results."""
    lines = [line for line in said.splitlines() if line.strip()]
    for line in reversed(lines):
        if line.startswith("{") and "error" in (told := json.loads(line)):
            return str(told["error"])
        if line.startswith("error: "):
            # The runner's own, of which the next line says what to do.
            return "; ".join(part.strip() for part in lines[lines.index(line) :]).removeprefix("error: ")
    return lines[-1] if lines else "it ended without a word; see `make logs s=streams`"
