"""Enforce a table's contract on every change row, in the pass that decodes it.

A row that breaks a promise is rejected, comes without the value, or comes and is counted, as the contract says. Deletes
and truncates aren't checked, nor is a value that an update left out: it was checked when it was written. A condition
that is null holds. Arithmetic that fails (a division by zero, a text that is no number) is null as well: one row must
not stop its table.

A promise that can't be checked on a table as it is (its column is gone, or has another type now) is reported and passed
over: the lake goes on to equal the source, and `lakehouse contract diff` shows the difference.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from pipelines.changes.topic_batch import TopicBatch
from pipelines.errors import first_line
from pipelines.schema.columns import TableShape
from pipelines.schema.lake_types import printed
from pipelines.sources.base.change_rows import BROKEN, CREATES, FOUND_BROKEN
from pipelines.spark.dataframes import as_view
from pipelines.spark.parsing import wrong_expression, wrong_pattern
from pipelines.spark.session import configured
from pipelines.sql import literal, quote
from quality.conditions import Dialect, conditions, kept
from quality.contract import Action, Contract
from quality.errors import ContractError
from quality.suites import REQUIRED

SPARK = Dialect(literal, "rlike")
LENIENT = {"spark.sql.ansi.enabled": "false"}
ENFORCED_OPERATIONS = (*CREATES, "u")
# What the columns of a change row are called beside those of the source.
PREFIX = "change "


@dataclass(frozen=True)
class Promise:
    """One promise of a contract.

    ``condition``: of a good row, in SQL over the source's columns. ``unless``: columns without which it can't be
    checked.
    """

    name: str
    condition: str
    action: Action
    unless: tuple[str, ...] = ()


def check(spark: SparkSession, contracts: Iterable[Contract]) -> None:
    """Raise ContractError for a rule that isn't Spark's SQL, or a pattern that Java doesn't understand."""
    for contract in contracts:
        for rule in contract.rules:
            if why := wrong_expression(spark, rule.condition):
                raise ContractError(f"contract of {contract.source_name}, rule {rule.name}: {why}")
        for column in contract.columns:
            pattern = column.options.get("pattern", "")
            if why := wrong_pattern(spark, pattern):
                raise ContractError(
                    f"contract of {contract.source_name}, column {column.name}: pattern {pattern!r}: {why}"
                )


class Enforcement:
    """The contract of one table, enforced on its columns as they are now. Used by one thread at a time."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._known: tuple[tuple[str, str], ...] | None = None
        self._promises: tuple[Promise, ...] = ()

    def apply(self, rows: DataFrame, batch: TopicBatch, shape: TableShape) -> DataFrame:
        """Return ``rows`` (of :mod:`pipelines.changes.admit`) with the contract enforced.

        ``problem`` is set where a promise that rejects is broken, values are null where a promise says so, and
        ``broken`` is added: a struct of booleans, one a promise.
        """
        # Arithmetic that is lenient here must not be so elsewhere, so it is analysed in a session of this table's own.
        with as_view(rows, f"{batch.profile.topic} rows") as view, configured(batch.session, LENIENT):
            columns = tuple((c.name, printed(c.type.iceberg)) for c in shape.columns)
            if columns != self._known:
                self._promises = tuple(self._usable(batch, rows.columns, view, shape))
                self._known = columns
            if not self._promises:
                return rows
            # One text: each part of a statement that is made from Python takes its time.
            own = ", ".join(map(_own_field, rows.columns))
            query = f"SELECT {own}, {_broken_struct(self._promises)} FROM {_flat(rows.columns, view)}"
            values = ", ".join(f"{self._column(name, shape)} AS {quote(name)}" for name in rows.columns)
            found = batch.session.sql(f"SELECT {values}, {FOUND_BROKEN} FROM ({query})")
        # Back to the session that plans the rest of the batch, once and for all of its stages.
        with as_view(found, f"{batch.profile.topic} rows") as view:
            return rows.sparkSession.table(view)

    def _usable(self, batch: TopicBatch, columns: Sequence[str], view: str, shape: TableShape) -> Iterator[Promise]:
        for promise in promises(self._contract, shape):
            try:
                batch.session.sql(f"SELECT {_broken(promise)} FROM {_flat(columns, view)}")
            except AnalysisException as error:
                batch.outcome.not_enforced[promise.name] = first_line(error)
            else:
                yield promise

    def _column(self, name: str, shape: TableShape) -> str:
        """Return the SQL of a field of a change row, once it is known what is broken."""
        if name == "problem":
            names = [f"IF({_broken_field(p)}, {literal(p.name)}, NULL)" for p in self._promises if p.action == "reject"]
            listing = f"nullif(concat_ws(', ', {', '.join(names)}), '')" if names else "NULL"
            return f"coalesce({_own_field(name)}, {literal(f'{BROKEN}: ')} || {listing})"
        if name in ("row", "before") and any(p.action == "null" for p in self._promises):
            fields = ", ".join(f"{self._value(name, c.name)} AS {quote(c.name)}" for c in shape.columns)
            return f"IF({_own_field(name)} IS NULL, NULL, struct({fields}))"
        return _own_field(name)

    def _value(self, image: str, name: str) -> str:
        """Return the SQL of a value of the row, or of the row before the change.

        A value that the contract makes null isn't in the lake either, so it is null in both.
        """
        column, value = self._contract.column(name), f"{_own_field(image)}.{quote(name)}"
        if column is None or column.on_violation != "null":
            return value
        usable = {promise.name for promise in self._promises}
        promised = conditions(column, value, SPARK).items()
        return kept(value, [each for option, each in promised if f"{name}.{option}" in usable])


def promises(contract: Contract, shape: TableShape) -> Iterator[Promise]:
    """Yield what the contract promises of the columns that a table has, and of its rows."""
    toastable = {column.name for column in shape.toastable}
    for name in shape.column_names:
        column = contract.column(name)
        if column is None or column.key:
            continue
        unless = (name,) if name in toastable else ()
        if column.required:
            yield Promise(f"{name}.{REQUIRED}", f"{quote(name)} IS NOT NULL", column.on_violation, unless)
        for promise, condition in conditions(column, quote(name), SPARK).items():
            yield Promise(f"{name}.{promise}", condition, column.on_violation, unless)
    for rule in contract.rules:
        # A name that is only within a text is one too many, which does no harm.
        words = set(re.findall(r"\w+", rule.condition.casefold()))
        named = tuple(name for name in toastable if set(re.findall(r"\w+", name.casefold())) <= words)
        yield Promise(rule.name, rule.condition, rule.on_violation, named)


def _flat(columns: Sequence[str], view: str) -> str:
    """Return a subquery of the change rows, with the source's columns as columns beside their own fields."""
    own = ", ".join(f"{quote(name)} AS {_own_field(name)}" for name in columns)
    return f"(SELECT {own}, row.* FROM {view})"


def _broken_struct(promised: Sequence[Promise]) -> str:
    fields = ", ".join(f"{literal(promise.name)}, {_broken(promise)}" for promise in promised)
    return f"named_struct({fields}) AS {FOUND_BROKEN}"


def _broken(promise: Promise) -> str:
    guards = [
        f"{_own_field('problem')} IS NULL",
        f"{_own_field('op')} IN ({', '.join(map(literal, ENFORCED_OPERATIONS))})",
    ]
    guards += [f"NOT coalesce({_own_field('unavailable')}.{quote(name)}, false)" for name in promise.unless]
    # A condition may end in a comment.
    return f"({' AND '.join(guards)} AND NOT coalesce(({promise.condition}\n), true))"


def _broken_field(promise: Promise) -> str:
    return f"{FOUND_BROKEN}.{quote(promise.name)}"


def _own_field(name: str) -> str:
    return quote(f"{PREFIX}{name}")
