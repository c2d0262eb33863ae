"""The rules by which one table is mirrored, from its spec and its contract."""

from dataclasses import dataclass, field

from pipelines.checks.audit import AuditBranch
from pipelines.lake.file_rows import Budget
from pipelines.limits import Limits
from pipelines.protection.functions import Vault
from pipelines.specs.layout import Layout
from pipelines.specs.load import SchemaPolicy
from quality.contract import Contract


@dataclass(frozen=True)
class Rules:
    """The rules by which a table is mirrored.

    ``source``: the connector's name; ``pipeline``: the ledger's; ``dead_share``: see
    :mod:`pipelines.dead_letters.circuit_breaker`. ``audit``: what stands between the table's commits and its readers,
    if anything does. ``vault``: the keys by which what the contract protects is. ``limits``: what counts as few and as
    many. ``budget``: how many rows of all tables may be remembered; None: none, so that all is written by MERGE.
    """

    source: str
    pipeline: str
    dead_share: float
    policy: SchemaPolicy
    layout: Layout = field(default_factory=Layout)
    contract: Contract | None = None
    audit: AuditBranch | None = None
    vault: Vault | None = None
    limits: Limits = field(default_factory=Limits)
    budget: Budget | None = None
