"""Have derived tables computed once more, by Spark, beside the process that keeps them."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from pipelines.specs.load import Specs
from services.stack.errors import LakehouseError
from services.stack.lake import called
from services.stack.progress import Progress

COMMAND = (".lakehouse/toolchain/venv/bin/python", "-m", "pipelines.derived")


class NoSuchDerivedTable(LakehouseError):
    """No spec with ``kind: derived`` has this table."""


class NotProved(LakehouseError):
    """The comparison couldn't be made."""


def prove(
    specs: Specs, names: Sequence[str], on_progress: Callable[[Progress], None], examples: int
) -> list[dict[str, Any]]:
    """Return what was found of the named tables, or of all: the fields of a DerivedProof, and ``equal``.

    Raises NoSuchDerivedTable, or NotProved.
    """
    chosen = []
    for name in names:
        found = [table for table in specs.derived if name in called(table)]
        if not found:
            known = ", ".join(sorted(specs.derived)) or "none"
            raise NoSuchDerivedTable(f"{name} is no derived table (known: {known}).")
        chosen += found
    on_progress(Progress("derived", "computing once more", 0, len(chosen) or len(specs.derived)))
    command = [sys.executable, "-m", "services.runner", "run", "streams", "--", *COMMAND]
    done = subprocess.run([*command, *chosen, "--examples", str(examples)], capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it printed nothing"]
        raise NotProved(f"Derived tables can't be computed once more: {said[-1]}")
    result: list[dict[str, Any]] = json.loads(done.stdout)
    return result
