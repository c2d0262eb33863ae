"""Have derived tables computed once more, by Spark, and compared."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from pipelines.specs.load import Specs
from services.stack.derived_tables import compute, named
from services.stack.progress import Progress


def prove(
    specs: Specs, names: Sequence[str], on_progress: Callable[[Progress], None], examples: int
) -> list[dict[str, Any]]:
    """Return what was found of the named tables, or of all: the fields of a DerivedProof, and ``equal``.

    Raises NoSuchDerivedTable, or NotComputed.
    """
    chosen = named(specs, names)
    on_progress(Progress("derived", "computing once more", 0, len(chosen)))
    found: list[dict[str, Any]] = json.loads("".join(compute([*chosen, "--examples", str(examples)]))) if chosen else []
    return found
