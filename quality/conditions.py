"""Conditions: what a contract promises of a column's values, as SQL. Pure.

The text is the same for every engine that is asked, but for the words in which it writes a text (:class:`Dialect`).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from quality.contract import Column

_COMPARED = {"minimum": ">=", "maximum": "<=", "exclusiveMinimum": ">", "exclusiveMaximum": "<"}
_MEASURED = {"minLength": ">=", "maxLength": "<="}


@dataclass(frozen=True)
class Dialect:
    """How an engine writes a text, and the function that says whether a text has a match of a regular expression."""

    text: Callable[[str], str]
    matches: str


def conditions(column: Column, value: str, dialect: Dialect) -> dict[str, str]:
    """Return the condition of each promise, by name: true for the values that keep it, null or true for null.

    ``value``: the expression for the column. That it is there at all (``required``) is no condition of this kind.
    """
    return dict(_conditions(column, value, dialect))


def kept(value: str, promised: Iterable[str]) -> str:
    """Return the expression for ``value`` where none of these conditions is false, and else null."""
    every = " AND ".join(f"coalesce({each}, true)" for each in promised)
    return f"CASE WHEN {every} THEN {value} END" if every else value


def _conditions(column: Column, value: str, dialect: Dialect) -> Iterator[tuple[str, str]]:
    for option, bound in column.options.items():
        if option in _COMPARED:
            yield option, f"{value} {_COMPARED[option]} {_bound(bound, dialect)}"
        elif option in _MEASURED:
            yield option, f"length({value}) {_MEASURED[option]} {bound:d}"
        elif option == "pattern":
            yield option, f"{dialect.matches}({value}, {dialect.text(bound)})"
    if column.allowed:
        yield "enum", f"{value} IN ({', '.join(_literal(each, dialect) for each in column.allowed)})"


def _bound(value: Any, dialect: Dialect) -> str:
    """Write a bound as a literal, an integer as a decimal.

    A numeric that the lake holds as text is compared as a number then, and not cut off to an integer first.
    """
    return f"{value}.0" if isinstance(value, int) and not isinstance(value, bool) else _literal(value, dialect)


def _literal(value: Any, dialect: Dialect) -> str:
    match value:
        case bool():
            return str(value).lower()
        case datetime():
            return f"TIMESTAMP '{value.isoformat(' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case str():
            return dialect.text(value)
        case _:
            return repr(value)
