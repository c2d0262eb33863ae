"""Enforce: what a table's contract promises of a row, asked of every change in the pass that decodes it.

A row that breaks a promise is rejected, comes without the value, or comes and is counted, as the contract says. Deletes
and truncates are never asked, nor is a value that an update left out: it was asked when it was written. A condition
that is null holds. Arithmetic that fails (a division by zero, a text that is no number) is null as well: one row must
not stop its table.

A promise that can't be asked of a table as it is (its column is gone, or has another type now) is told and passed over:
the lake goes on to equal the source, and `lakehouse contract diff` tells the difference.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException
from pyspark.sql import DataFrame, SparkSession

from pipelines.changes.topic_batch import TopicBatch
from pipelines.schema.columns import TableShape
from pipelines.schema.lake_types import printed
from pipelines.sources.base.change_rows import BROKEN, CREATES, FOUND_BROKEN
from pipelines.spark.dataframes import viewed
from pipelines.spark.session import configured
from pipelines.sql import literal, quote
from quality.conditions import Dialect, conditions, kept
from quality.contract import Action, Contract
from quality.errors import ContractError
from quality.suites import REQUIRED

SPARK = Dialect(literal, "rlike")
LENIENT = {"spark.sql.ansi.enabled": "false"}
ASKED = (*CREATES, "u")
# What the columns of a change row are called beside those of the source.
PREFIX = "change "


@dataclass(frozen=True)
class Promise:
    """``condition``: of a good row, in SQL over the source's columns. ``unless``: columns without which it can't be
    asked.
    """

    name: str
    condition: str
    action: Action
    unless: tuple[str, ...] = ()


def check(spark: SparkSession, contracts: Iterable[Contract]) -> None:
    """Raise ContractError for a rule that isn't Spark's SQL, or a pattern that Java doesn't understand."""
    java, parser = spark._jvm, spark._jsparkSession.sessionState().sqlParser()
    assert java is not None
    for contract in contracts:
        for rule in contract.rules:
            try:
                parser.parseExpression(rule.condition)
            except ParseException as error:
                said = f"{error}".strip().splitlines()[0]
                raise ContractError(f"contract of {contract.source_name}, rule {rule.name}: {said}") from None
        for column in contract.columns:
            pattern = column.options.get("pattern", "")
            try:
                java.java.util.regex.Pattern.compile(pattern)
            except IllegalArgumentException as error:
                said = f"{error}".splitlines()[0]
                raise ContractError(
                    f"contract of {contract.source_name}, column {column.name}: pattern {pattern!r}: {said}"
                ) from None


class Enforcement:
    """One table's contract, as its columns are now. Used by one thread at a time."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._known: tuple[tuple[str, str], ...] | None = None
        self._promises: tuple[Promise, ...] = ()

    def on(self, rows: DataFrame, part: TopicBatch, shape: TableShape) -> DataFrame:
        """``rows`` (of :mod:`pipelines.changes.admit`), with ``problem`` set where a promise is broken that rejects,
        values null where one says so, and ``broken``: a struct of booleans, one a promise.
        """
        # Arithmetic that is lenient here must not be so elsewhere, so it is analysed in a session of this table's own.
        with viewed(rows, f"{part.seen.topic} rows") as view, configured(part.session, LENIENT):
            columns = tuple((c.name, printed(c.type.iceberg)) for c in shape.columns)
            if columns != self._known:
                self._promises = tuple(self._usable(part, rows.columns, view, shape))
                self._known = columns
            if not self._promises:
                return rows
            # One text: each part of a statement that is made from Python takes its time.
            own = ", ".join(map(_change, rows.columns))
            judged = f"SELECT {own}, {_found(self._promises)} FROM {_flat(rows.columns, view)}"
            values = ", ".join(f"{self._column(name, shape)} AS {quote(name)}" for name in rows.columns)
            found = part.session.sql(f"SELECT {values}, {FOUND_BROKEN} FROM ({judged})")
        # Back to the session that plans the rest of the batch, once and for all of its stages.
        with viewed(found, f"{part.seen.topic} rows") as view:
            return rows.sparkSession.table(view)

    def _usable(self, part: TopicBatch, columns: Sequence[str], view: str, shape: TableShape) -> Iterator[Promise]:
        for promise in promises(self._contract, shape):
            try:
                part.session.sql(f"SELECT {_broken(promise)} FROM {_flat(columns, view)}")
            except AnalysisException as error:
                part.outcome.not_enforced[promise.name] = f"{error}".strip().splitlines()[0]
            else:
                yield promise

    def _column(self, name: str, shape: TableShape) -> str:
        """What a field of a change row is, once it is known what is broken."""
        if name == "problem":
            names = [f"IF({_field(p)}, {literal(p.name)}, NULL)" for p in self._promises if p.action == "reject"]
            told = f"nullif(concat_ws(', ', {', '.join(names)}), '')" if names else "NULL"
            return f"coalesce({_change(name)}, {literal(f'{BROKEN}: ')} || {told})"
        if name in ("row", "before") and any(p.action == "null" for p in self._promises):
            fields = ", ".join(f"{self._value(name, c.name)} AS {quote(c.name)}" for c in shape.columns)
            return f"IF({_change(name)} IS NULL, NULL, struct({fields}))"
        return _change(name)

    def _value(self, image: str, name: str) -> str:
        """A value of the row, or of what the row was before: that isn't in the lake either."""
        column, value = self._contract.column(name), f"{_change(image)}.{quote(name)}"
        if column is None or column.on_violation != "null":
            return value
        usable = {promise.name for promise in self._promises}
        promised = conditions(column, value, SPARK).items()
        return kept(value, [each for option, each in promised if f"{name}.{option}" in usable])


def promises(contract: Contract, shape: TableShape) -> Iterator[Promise]:
    """What is promised of the columns that a table has, and of its rows."""
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
    """The change rows with the source's columns as columns, beside their own fields."""
    own = ", ".join(f"{quote(name)} AS {_change(name)}" for name in columns)
    return f"(SELECT {own}, row.* FROM {view})"


def _found(promised: Sequence[Promise]) -> str:
    fields = ", ".join(f"{literal(promise.name)}, {_broken(promise)}" for promise in promised)
    return f"named_struct({fields}) AS {FOUND_BROKEN}"


def _broken(promise: Promise) -> str:
    asked = [f"{_change('problem')} IS NULL", f"{_change('op')} IN ({', '.join(map(literal, ASKED))})"]
    asked += [f"NOT coalesce({_change('unavailable')}.{quote(name)}, false)" for name in promise.unless]
    # A condition may end in a comment.
    return f"({' AND '.join(asked)} AND NOT coalesce(({promise.condition}\n), true))"


def _field(promise: Promise) -> str:
    return f"{FOUND_BROKEN}.{quote(promise.name)}"


def _change(name: str) -> str:
    return quote(f"{PREFIX}{name}")
