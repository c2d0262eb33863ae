"""Audit: write, audit, publish. What a batch makes of a table whose contract is blocking goes to a branch, which only
becomes what readers see once it keeps every promise. Until then they have the last state that did.

Columns and comments are the table's: they change when the batch is written, published or not.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from pipelines.changes.topic_batch import TopicOutcome
from pipelines.checks.record import Last, Record, Run
from pipelines.checks.run import Checker
from pipelines.errors import NotPublished
from pipelines.lake.table import LakeTable
from pipelines.ledger.table_ledger import TableLedger
from quality.contract import Contract

BRANCH = "audit"
MAIN = "main"


# Great Expectations runs its SQL in the process's first session, on a view that has always the same name.
_ONE_AT_A_TIME = Lock()


class AuditBranch:
    """One table's. ``spark``: the process's first session; ``settle``: lets other tables come as far as this one, for
    checks that look at them.
    """

    def __init__(self, spark: SparkSession, contract: Contract, settle: Callable[[], None]) -> None:
        self._spark, self._contract, self._settle = spark, contract, settle
        # What was published last by this process.
        self._last: Last | None = None

    def begin(self, table: LakeTable) -> LakeTable:
        """The table on a branch of its own, which is as readers see it now. What an earlier one left goes."""
        self.abandon(table)
        table.java.manageSnapshots().createBranch(BRANCH).commit()
        table.refresh()
        return table.on(BRANCH)

    def publish(self, table: LakeTable) -> None:
        """Let readers see the branch, if it keeps the contract. Raises NotPublished, which says what is broken."""
        table.refresh()
        java, written = table.java, table.snapshot_id
        current = java.currentSnapshot()
        if written is not None and (current is None or int(current.snapshotId()) != written):
            with _ONE_AT_A_TIME:
                self._check(table)
            java.manageSnapshots().fastForwardBranch(MAIN, BRANCH).removeBranch(BRANCH).commit()
            table.refresh()
        else:
            self.abandon(table)

    def abandon(self, table: LakeTable) -> None:
        """What is on the branch is given up, and nobody has seen it."""
        table.refresh()
        if BRANCH in table.branches:
            table.java.manageSnapshots().removeBranch(BRANCH).commit()
            table.refresh()

    def _check(self, table: LakeTable) -> None:
        record, name = Record(self._spark), f"{table.namespace}.{table.name}"
        last = self._last or record.last(name)
        run = Checker(self._spark, self._settle).ask(table, self._contract, last)
        if run.success:
            self._last = run.last
            return
        record.add([run])
        raise NotPublished(
            f"{name} isn't published, because its contract lets nobody see what breaks it: {_said(run)}. Readers have"
            " what was before. Mend the rows in the source, or change the contract and have the mirror read it"
            " (`make up`)."
        )


@contextmanager
def audited(
    audit: AuditBranch | None, account: TableLedger, look: Callable[[], None], outcome: TopicOutcome
) -> Iterator[None]:
    """What is committed to the account's table within the block is seen once it was audited, if it is to be. ``look``:
    has the account look at the table. Raises NotPublished.
    """
    if audit is None:
        yield
        return
    look()
    if account.table is not None:
        with outcome.stage("audit"):
            audit.begin(account.table)
    account.branch = BRANCH
    try:
        yield
        if account.table is not None:
            with outcome.stage("audit"):
                audit.publish(account.table)
    except BaseException:
        # Where even that can't be done, it is when the table is next begun.
        with suppress(Py4JJavaError):
            if account.table is not None:
                audit.abandon(account.table)
        raise
    finally:
        account.branch = None
    look()


def _said(run: Run) -> str:
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
