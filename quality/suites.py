"""Suites: everything that a contract promises, as expectations of Great Expectations. Pure.

Those of rows say something of each row by itself, so that rows which haven't changed needn't be asked again.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from quality.checks import QUERY, TABLE
from quality.contract import Column, Contract

COLUMNS, KEY, REQUIRED, UNIQUE = "columns", "key", "required", "unique"
_LENGTHS = {"minLength": "min_value", "maxLength": "max_value"}
_BOUNDS: Mapping[str, Mapping[str, Any]] = {
    "minimum": {"min_value": ...}, "maximum": {"max_value": ...},
    "exclusiveMinimum": {"min_value": ..., "strict_min": True},
    "exclusiveMaximum": {"max_value": ..., "strict_max": True},
}  # fmt: skip


@dataclass(frozen=True)
class Expectation:
    """``name``: of the promise; ``kind``, ``arguments``: Great Expectations' own; ``of_rows``: of each row by itself;
    ``others``: it may look at other tables, which are as they are, while this one is pinned.
    """

    name: str
    kind: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    column: str | None = None
    of_rows: bool = False
    others: bool = False
    description: str | None = None

    @property
    def digest(self) -> str:
        """What it asks: another one asks something else."""
        said = json.dumps([self.name, self.kind, dict(self.arguments)], sort_keys=True, default=str)
        return hashlib.sha256(said.encode()).hexdigest()[:16]


def suite(contract: Contract, has: Collection[str]) -> list[Expectation]:
    """What is promised of a table that ``has`` these columns; of one that it hasn't, that it has it."""
    return list(_suite(contract, set(has)))


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
