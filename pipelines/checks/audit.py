"""Write, audit, publish: a table with a blocking contract is audited before readers see it.

What a batch makes of it goes to a branch, which only becomes what readers see once it keeps every promise. Until then
they have the last state that did. Columns and comments are the table's: they change when the batch is written,
published or not.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from threading import Lock
from typing import Self

from pyspark.sql import SparkSession

from pipelines.checks.record import PreviousRun, Record, Run
from pipelines.checks.run import Checker
from pipelines.errors import JavaRaised, NotPublished
from pipelines.lake.catalog import Lake
from pipelines.lake.refs import create_branch, publish_branch, remove_branch
from pipelines.lake.table import LakeTable
from pipelines.ledger.table_ledger import TableLedger
from quality.contract import Contract

BRANCH = "audit"


# Great Expectations runs its SQL in the process's first session, on a view that has always the same name.
_ONE_AT_A_TIME = Lock()


class AuditBranch:
    """The audit branch of one table.

    ``spark``: the process's first session; ``await_others``: lets other tables come as far as this one, for checks that
    look at them.
    """

    def __init__(self, spark: SparkSession, contract: Contract, await_others: Callable[[], None]) -> None:
        self._spark, self._contract, self._await_others = spark, contract, await_others
        # What was published last by this process.
        self._last: PreviousRun | None = None

    @classmethod
    def of(cls, spark: SparkSession, contract: Contract | None, await_others: Callable[[], None]) -> Self | None:
        """Return the branch of a table whose contract lets nobody see what breaks it; None: readers see everything."""
        return cls(spark, contract, await_others) if contract is not None and contract.blocking else None

    def begin(self, table: LakeTable) -> LakeTable:
        """Return the table on a new branch, which is as readers see it now. What an earlier one left is removed."""
        remove_branch(table, BRANCH)
        return create_branch(table, BRANCH)

    def publish(self, table: LakeTable) -> None:
        """Let readers see the branch, if it keeps the contract. Raises NotPublished, which says what is broken."""
        table.refresh()
        written = table.snapshot_id
        if written is not None and table.main_snapshot_id != written:
            with _ONE_AT_A_TIME:
                self._check(table)
            publish_branch(table, BRANCH)
        else:
            self.abandon(table)

    def abandon(self, table: LakeTable) -> None:
        """Remove the branch. Nobody has seen what is on it."""
        remove_branch(table, BRANCH)

    def _check(self, table: LakeTable) -> None:
        record, name = Record(self._spark), f"{table.namespace}.{table.name}"
        last = self._last or record.last(name)
        run = Checker(self._spark, self._await_others).ask(table, self._contract, last)
        if run.success:
            self._last = run.last
            return
        record.add([run])
        raise NotPublished(
            f"{name} isn't published, because its contract lets nobody see what breaks it: {_reasons(run)}. Readers"
            " have what was before. Mend the rows in the source, or change the contract and have the mirror read it"
            " (`make up`). See infra/runbooks/contract-broken.md"
        )


@contextmanager
def audited_table(audit: AuditBranch | None, table: LakeTable) -> Iterator[LakeTable]:
    """Give the table that a commit within the block goes to, which readers see once it was audited, if it is to be.

    Raises NotPublished.
    """
    if audit is None:
        yield table
        return
    branch = audit.begin(table)
    try:
        yield branch
        audit.publish(branch)
    except BaseException:
        with suppress(JavaRaised):
            audit.abandon(branch)
        raise
    table.refresh()


@contextmanager
def audited(
    audit: AuditBranch | None, ledger: TableLedger, lake: Lake,
    stage: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> Iterator[None]:  # fmt: skip
    """Have readers see what is committed to the ledger's table within the block once it was audited, if it is to be.

    ``stage``: what is told of how long parts of it take. Raises NotPublished.
    """
    if audit is None:
        yield
        return
    ledger.load(lake)
    if ledger.table is not None:
        with stage("audit"):
            audit.begin(ledger.table)
    ledger.branch = BRANCH
    try:
        ledger.load(lake)
        yield
        if ledger.table is not None:
            with stage("audit"):
                audit.publish(ledger.table)
    except BaseException:
        # Where even that can't be done, it is when the table is next begun.
        with suppress(JavaRaised):
            if ledger.table is not None:
                audit.abandon(ledger.table)
        raise
    finally:
        ledger.branch = None
    ledger.load(lake)


def _reasons(run: Run) -> str:
    if run.error is not None:
        return run.error
    broken = [
        f"{result.expectation.name} ({result.error or _count(result.unexpected)})"
        for result, _ in run.results
        if not result.success and not result.expectation.protected
    ]
    return ", ".join(broken)


def _count(rows: int | None) -> str:
    return "broken" if rows is None else f"{rows:,} rows"
