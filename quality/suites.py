"""Suites: everything that a contract promises, as expectations of Great Expectations. Pure.

Those of rows say something of each row by itself, so that rows which haven't changed needn't be asked again. What needs
a value that the lake has protected can't be asked of it, and is told as such: the stream asks it of the value itself.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from quality.checks import QUERY, TABLE
from quality.contract import Column, Contract

# What of a value is asked: that it is there, whether others equal it, or anything else. By which protections it can be.
PRESENCE, EQUALITY = "presence", "equality"
_LEFT: Mapping[str, Collection[str]] = {PRESENCE: ("hash", "tokenise", "mask", "encrypt"),
                                        EQUALITY: ("hash", "tokenise")}  # fmt: skip
_ASKED = {
    "nullValues": PRESENCE, "duplicateValues": EQUALITY, "expect_column_values_to_not_be_null": PRESENCE,
    "expect_column_values_to_be_null": PRESENCE, "expect_column_to_exist": PRESENCE,
    "expect_column_values_to_be_unique": EQUALITY,
}  # fmt: skip
COLUMNS, KEY, REQUIRED, UNIQUE = "columns", "key", "required", "unique"
_LENGTHS = {"minLength": "min_value", "maxLength": "max_value"}
_BOUNDS: Mapping[str, Mapping[str, Any]] = {
    "minimum": {"min_value": ...}, "maximum": {"max_value": ...},
    "exclusiveMinimum": {"min_value": ..., "strict_min": True},
    "exclusiveMaximum": {"max_value": ..., "strict_max": True},
}  # fmt: skip


@dataclass(frozen=True)
class Expectation:
    """What is asked of a table for one promise.

    ``name``: of the promise; ``kind``, ``arguments``: Great Expectations' own; ``of_rows``: of each row by itself;
    ``others``: it may look at other tables, which are as they are, while this one is pinned. ``protected``: why it
    can't be asked; ``private``: it names a column that is classified or protected, whose values are nobody's business.
    """

    name: str
    kind: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    column: str | None = None
    of_rows: bool = False
    others: bool = False
    description: str | None = None
    protected: str | None = None
    private: bool = False

    @property
    def digest(self) -> str:
        """What it asks: another one asks something else."""
        said = json.dumps([self.name, self.kind, dict(self.arguments)], sort_keys=True, default=str)
        return hashlib.sha256(said.encode()).hexdigest()[:16]


def suite(contract: Contract, has: Collection[str], protected: Mapping[str, str] | None = None) -> list[Expectation]:
    """Return what is promised of a table that ``has`` these columns; of one that it hasn't, that it has it.

    ``protected``: columns that its rows have otherwise than the source, whatever the contract says now.
    """
    how = {**(protected or {}), **contract.protected}
    private = {column.name for column in contract.columns if column.classification} | how.keys()
    metrics = {check.name: check.metric or check.kind for check in contract.checks}
    return [_guarded(each, metrics.get(each.name, each.kind), how, private) for each in _suite(contract, set(has))]


def _guarded(asked: Expectation, kind: str, how: Mapping[str, str], private: Collection[str]) -> Expectation:
    if asked.name == COLUMNS:
        return asked
    words = _words(f"{asked.column} {json.dumps(asked.arguments, default=str, ensure_ascii=False)}")
    named = [name for name in private if _words(name) <= words]
    stopped = [f"{name} is protected ({how[name]})" for name in named
               if name in how and how[name] not in _LEFT.get(_ASKED.get(kind, ""), ())]  # fmt: skip
    return replace(asked, private=bool(named), protected=", ".join(sorted(stopped)) or None)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def _suite(contract: Contract, has: set[str]) -> Iterator[Expectation]:
    names = [column.name for column in contract.columns]
    yield Expectation(
        COLUMNS, "expect_table_columns_to_match_set", {"column_set": [*names, *sorted(has - set(names))],
                                                       "exact_match": True},
        description="every column that is promised is there",
    )  # fmt: skip
    present = [column for column in contract.columns if column.name in has]
    if contract.key and set(contract.key) <= has:
        yield _key(contract.key)
    for column in present:
        yield from _of_column(column)
    for rule in contract.rules:
        # A condition may end in a comment.
        condition = rule.condition.replace("{", "{{").replace("}", "}}")
        query = f"SELECT 1 AS broken FROM {TABLE} WHERE NOT coalesce(({condition}\n), true)"
        yield Expectation(rule.name, QUERY, {"unexpected_rows_query": query}, of_rows=True,
                          description=rule.description or rule.condition)  # fmt: skip
    for check in contract.checks:
        yield Expectation(check.name, check.kind, check.arguments, check.column, others=check.others,
                          description=check.description)  # fmt: skip


def _key(key: tuple[str, ...]) -> Expectation:
    if len(key) == 1:
        return Expectation(KEY, "expect_column_values_to_be_unique", {"column": key[0]}, key[0])
    return Expectation(KEY, "expect_compound_columns_to_be_unique", {"column_list": list(key)})


def _of_column(column: Column) -> Iterator[Expectation]:
    def promise(name: str, kind: str, of_rows: bool = True, **arguments: Any) -> Expectation:
        return Expectation(f"{column.name}.{name}", kind, {"column": column.name, **arguments}, column.name, of_rows)

    if column.required:
        yield promise(REQUIRED, "expect_column_values_to_not_be_null")
    if column.unique and not column.key:
        yield promise(UNIQUE, "expect_column_values_to_be_unique", of_rows=False)
    for option, bound in column.options.items():
        if option in _BOUNDS:
            said = {name: bound if value is ... else value for name, value in _BOUNDS[option].items()}
            yield promise(option, "expect_column_values_to_be_between", **said)
        elif option in _LENGTHS:
            yield promise(option, "expect_column_value_lengths_to_be_between", **{_LENGTHS[option]: bound})
        elif option == "pattern":
            yield promise(option, "expect_column_values_to_match_regex", regex=bound)
    if column.allowed:
        yield promise("enum", "expect_column_values_to_be_in_set", value_set=list(column.allowed))
