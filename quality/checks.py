"""Checks: what a contract promises of a table as a whole, in the standard's own ways of saying it. Pure.

- ``library``: a metric (``rowCount``, ``nullValues``, ``missingValues``, ``invalidValues``, ``duplicateValues``) and
  what it must be;
- ``sql``: a query for one value, with ``${table}`` (and of a column's check ``${column}``), and what it must be; other
  tables are named as Spark knows them, ``lake.shop.orders``;
- ``custom`` for the engine ``great-expectations``: an expectation of any kind, with its arguments.

The first two become queries for what shouldn't be there.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from open_data_contract_standard.model import DataQuality, SchemaObject

from quality.errors import ContractError

ENGINES = ("great-expectations", "greatExpectations")
QUERY = "unexpected_rows_expectation"
# What the engine puts the table in place of.
TABLE = "{batch}"
_PLACEHOLDERS = ("table", "object")
_COLUMN_PLACEHOLDERS = ("column", "property")
_METRICS = {
    "rowCount": "count(*)",
    "nullValues": "count_if({column} IS NULL)",
    "missingValues": "count_if({column} IS NULL OR cast({column} AS string) IN ({values}))",
    "invalidValues": "count_if({column} NOT IN ({values}))",
    "duplicateValues": "count({column}) - count(DISTINCT {column})",
}
_SINGLE = {
    "mustBe": "=", "mustNotBe": "<>", "mustBeGreaterThan": ">", "mustBeGreaterOrEqualTo": ">=", "mustBeLessThan": "<",
    "mustBeLessOrEqualTo": "<=",
}  # fmt: skip
_PAIRS = {"mustBeBetween": "BETWEEN", "mustNotBeBetween": "NOT BETWEEN"}
BOUNDS = (*_SINGLE, *_PAIRS)
# What follows the only FROM of a query that looks at its own table only.
_OWN = re.compile(rf"\s*\$\{{({'|'.join(_PLACEHOLDERS)})\}}(?!.*(,|\b(JOIN|TABLE)\b))", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Check:
    """A check of a table or of a column.

    ``kind``, ``arguments``: of an expectation, as Great Expectations has them. ``column``: what it is of, if of one.
    ``others``: whether it may look at other tables, too. ``metric``: which of the standard's it is, if it is one.
    """

    name: str
    kind: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    column: str | None = None
    description: str | None = None
    others: bool = False
    metric: str | None = None


def checks_of(table: SchemaObject) -> Iterator[Check]:
    """Return the checks of a table and its columns. Raises ContractError.

    Other engines' and mere texts are passed over.
    """
    for place, found in enumerate(table.quality or []):
        yield from _checks(f"schema[0].quality[{place}]", found, None)
    for number, column in enumerate(table.properties or []):
        for place, found in enumerate(column.quality or []):
            where = f"schema[0].properties[{number}].quality[{place}]"
            yield from _checks(where, found, column.physicalName or column.name or "")


def _checks(where: str, found: DataQuality, column: str | None) -> Iterator[Check]:
    kind = found.type or "library"
    prefix = f"{column}." if column else ""
    if kind == "library":
        name = f"{prefix}{found.name or found.metric}"
        yield Check(name, QUERY, _query(f"SELECT {_metric(where, found, column)} AS found FROM {TABLE}", where, found),
                    column, found.description, metric=found.metric)  # fmt: skip
    elif kind == "sql":
        if not found.name or not found.query:
            raise ContractError(f"{where}: a check by SQL has a name and a query")
        text = _doubled(found.query.strip().rstrip(";"))
        for word in _PLACEHOLDERS:
            text = text.replace(f"${{{{{word}}}}}", TABLE)
        for word in _COLUMN_PLACEHOLDERS:
            text = text.replace(f"${{{{{word}}}}}", _quoted(column or ""))
        if "${{" in text:
            known = ", ".join(f"${{{word}}}" for word in (*_PLACEHOLDERS, *_COLUMN_PLACEHOLDERS))
            raise ContractError(f"{where} ({found.name}): the query has a placeholder that isn't one of {known}")
        query = _query(f"SELECT * FROM ({text}) AS asked(found)", where, found)
        yield Check(f"{prefix}{found.name}", QUERY, query, column, found.description, others=_names_others(found.query))
    elif kind == "custom" and found.engine in ENGINES:
        yield _expectation(where, found, column, prefix)


def _names_others(query: str) -> bool:
    """Return whether a query may look at another table; it may, unless it plainly has ``FROM ${table}`` and no more."""
    _, *sources = re.split(r"\bFROM\b", query, flags=re.IGNORECASE)
    return len(sources) != 1 or _OWN.match(sources[0]) is None


def _expectation(where: str, found: DataQuality, column: str | None, prefix: str) -> Check:
    said = found.implementation
    kind = said.get("type") or said.get("expectation_type") if isinstance(said, dict) else None
    if not isinstance(said, dict) or not isinstance(kind, str) or not kind.startswith("expect_"):
        raise ContractError(f"{where}: the implementation has the type of an expectation (expect_…) and its kwargs")
    arguments = said.get("kwargs") or {}
    if not isinstance(arguments, dict):
        raise ContractError(f"{where} ({kind}): its kwargs are {arguments!r}, not names with values")
    own = {"column": column} if column and "column" not in arguments else {}
    name = f"{prefix}{found.name or kind}"
    return Check(name, kind, {**own, **arguments}, arguments.get("column", column), found.description)


def _metric(where: str, found: DataQuality, column: str | None) -> str:
    metric = _METRICS.get(found.metric or "")
    if metric is None:
        raise ContractError(f"{where}: metric is {found.metric!r}, not one of {', '.join(_METRICS)}")
    if "{column}" in metric and not column:
        raise ContractError(f"{where}: {found.metric} is of a column: say it in the column's own quality")
    values = (found.arguments or {}).get({"missingValues": "missingValues", "invalidValues": "validValues"}.get(
        found.metric or "", ""), [])  # fmt: skip
    if "{values}" in metric and not values:
        raise ContractError(f"{where}: {found.metric} needs arguments that list the values")
    listed = ", ".join(_literal(value) for value in values)
    return metric.replace("{column}", _quoted(column or "")).replace("{values}", listed)


def _query(query: str, where: str, found: DataQuality) -> dict[str, Any]:
    """Return the arguments of an expectation that the value ``found`` of a query is what it must be."""
    for word, operator in _SINGLE.items():
        bound = getattr(found, word)
        if bound is not None:
            return _unexpected(query, f"found {operator} {_literal(bound)}")
    for word, operator in _PAIRS.items():
        bounds = getattr(found, word)
        if bounds is not None:
            return _unexpected(query, f"found {operator} {_literal(bounds[0])} AND {_literal(bounds[1])}")
    raise ContractError(f"{where}: what must it be? Say {', '.join(BOUNDS)}")


def _unexpected(query: str, condition: str) -> dict[str, Any]:
    return {"unexpected_rows_query": f"SELECT found FROM ({query}) WHERE NOT coalesce({condition}, false)"}


def _quoted(name: str) -> str:
    return _doubled("`" + name.replace("`", "``") + "`")


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return _doubled("'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'")
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _doubled(text: str) -> str:
    """Double braces that aren't the engine's placeholders."""
    return text.replace("{", "{{").replace("}", "}}")
