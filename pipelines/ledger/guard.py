"""Check optimistically that a table's ledger hasn't moved: what goes on from it is tied to what it said.

So nothing is accounted for twice if a second mirror has committed to the table meanwhile. See
infra/decisions/017-one-mirror-a-source.md.
"""

from pipelines.errors import RetryBatch
from pipelines.lake.table import LakeTable
from pipelines.lake.validator import AncestryValidator
from pipelines.ledger.entries import Ledger, read_ledger

MOVED = "somebody else has committed to it since it was looked at"


def checked_snapshot(table: LakeTable, known: Ledger) -> int | None:
    """Look the table up and return its newest snapshot; None: nothing was ever committed.

    Raises RetryBatch where its ledger says something else than what is ``known``.
    """
    table.refresh()
    if read_ledger(table.summaries()) != known:
        raise RetryBatch(f"{table.namespace}.{table.name}: {MOVED}")
    return table.snapshot_id


def ledger_guard(table: LakeTable, known: Ledger) -> AncestryValidator:
    """Return a validator by which a commit is laid only over a snapshot whose ledger says what is ``known``."""
    return AncestryValidator(table, lambda summaries: read_ledger(summaries) == known, MOVED)
