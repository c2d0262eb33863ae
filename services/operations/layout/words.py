"""What is said of a table's layout, by the command and on the table's page."""

from collections.abc import Sequence

from services.operations.layout.advice import Advice
from services.operations.layout.observation import Observation


def seen(observed: Observation) -> str:
    """Return what was observed, in a sentence."""
    said = f"{observed.rows:,} rows in {observed.files:,} files; "
    if not observed.batches:
        return said + "no batch that its history still holds changed a row of it."
    return said + f"the median of its last {observed.batches} batches changed {observed.changes:,.0f} rows."


def as_spec(found: Sequence[Advice]) -> list[str]:
    """Return all advice as the lines of one layout: the first term for partitions, and every one for rows' order."""
    partition = [advice.term for advice in found if advice.part == "partition"][:1]
    order = list(dict.fromkeys(advice.term for advice in found if advice.part == "sort"))
    parts = {"partition": partition, "sort": order}
    return [f"{name}: [{', '.join(terms)}]" for name, terms in parts.items() if terms]
