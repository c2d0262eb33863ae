"""Contract: what the owner of a table promises of it, from one Open Data Contract Standard file (ODCS) a table.

The standard's own words are used where it has some: ``required``, ``unique``, ``primaryKey``, ``classification``,
``enum``, ``logicalTypeOptions`` (see :data:`OPTIONS`), ``team`` (roles ``owner`` and ``steward``), ``slaProperties``
(``freshness``, ``retention``). It has no word for what becomes of a row that breaks a promise: that is the custom
property ``onViolation`` of a column or rule (:data:`Action`). A rule over several columns is a quality check of type
``custom`` for the engine ``lakehouse``, with a condition in Spark's SQL that holds for every row. The custom property
``blocking`` of the table says that nobody may see a state of it that breaks its contract. What becomes of values before
they reach the lake is said by ``protection`` and ``protect`` (:mod:`quality.protection`).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from open_data_contract_standard.model import (
    CustomProperty,
    DataQuality,
    OpenDataContractStandard,
    SchemaObject,
    SchemaProperty,
)

from quality import protection
from quality.audience import Audience, audiences
from quality.checks import Check, checks_of
from quality.custom import custom
from quality.errors import ContractError
from quality.protection import Protection

# reject: the row becomes a dead letter. null: it comes without the value. warn: it comes, and is counted.
Action = Literal["reject", "null", "warn"]
ACTIONS = get_args(Action)
ENGINE = "lakehouse"
NUMERIC_OPTIONS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
TEXT_OPTIONS = ("minLength", "maxLength", "pattern")
OPTIONS = (*NUMERIC_OPTIONS, *TEXT_OPTIONS)
SECONDS = {"s": 1, "second": 1, "seconds": 1, "m": 60, "min": 60, "minute": 60, "minutes": 60, "h": 3600, "hour": 3600,
           "hours": 3600, "d": 86400, "day": 86400, "days": 86400, "mo": 30 * 86400, "month": 30 * 86400,
           "months": 30 * 86400, "y": 365 * 86400, "yr": 365 * 86400, "year": 365 * 86400,
           "years": 365 * 86400}  # fmt: skip
# What Java's regular expressions have, and those of most other engines haven't.
BEYOND_RE2 = re.compile(r"\(\?<?[=!]|\\[1-9]|\(\?>|[*+?}]\+")


@dataclass(frozen=True)
class Column:
    """What is promised of a column.

    ``physical``: its type as the source prints it; ``key``: its place in the primary key, from 1, or 0; ``options``: of
    :data:`OPTIONS`; ``allowed``: the values that it may have, or none: any.
    """

    name: str
    physical: str | None = None
    logical: str | None = None
    key: int = 0
    required: bool = False
    unique: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    allowed: tuple[Any, ...] = ()
    description: str | None = None
    classification: str | None = None
    on_violation: Action = "warn"
    protection: Protection | None = None


@dataclass(frozen=True)
class Rule:
    """A condition in Spark's SQL, over the columns' own names, that holds for every row (or is null)."""

    name: str
    condition: str
    on_violation: Literal["reject", "warn"] = "warn"
    description: str | None = None


@dataclass(frozen=True)
class Contract:
    """What is promised of one table.

    ``table``: schema and name in the source; ``rules``: of every row, ``checks``: of the whole table;
    ``freshness_seconds``, ``retention_seconds``: what the service level says, if it does. ``blocking``: nobody may see
    what breaks it. ``audiences``: the roles that are shown a part of it (:mod:`quality.audience`).
    """

    table: tuple[str, str]
    version: str
    status: str
    columns: tuple[Column, ...]
    rules: tuple[Rule, ...] = ()
    checks: tuple[Check, ...] = ()
    description: str | None = None
    owner: str | None = None
    steward: str | None = None
    freshness_seconds: float | None = None
    retention_seconds: float | None = None
    blocking: bool = False
    audiences: tuple[Audience, ...] = ()

    @property
    def source_name(self) -> str:
        """As people write it: ``public.orders``."""
        return ".".join(self.table)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the primary key, in its order."""
        return tuple(column.name for column in sorted(self.columns, key=lambda c: c.key) if column.key)

    @property
    def protected(self) -> dict[str, Protection]:
        """Column to what becomes of its values, of those of which something does."""
        return {column.name: column.protection for column in self.columns if column.protection}

    def column(self, name: str) -> Column | None:
        """Return what is promised of a column, if anything is."""
        return next((column for column in self.columns if column.name == name), None)


def contract_of(document: OpenDataContractStandard) -> Contract:
    """Return what a valid document promises. Raises ContractError, which names the place and not the file."""
    objects = document.schema_ or []
    if len(objects) != 1:
        raise ContractError(f"schema has {len(objects)} tables: a file is the contract of one")
    (table,) = objects
    levels = {p.property: _seconds(p.property, p.value, p.unit) for p in document.slaProperties or ()
              if p.property in ("freshness", "retention")}  # fmt: skip
    members = (document.team if isinstance(document.team, list) else (document.team and document.team.members)) or []
    roles = {(member.role or "").lower(): member.username for member in members}
    defaults = protection.by_class(custom(table.customProperties, protection.BY_CLASS))
    columns = tuple(_column(found, place, defaults) for place, found in enumerate(table.properties or [], 1))
    if not columns:
        raise ContractError("schema[0].properties: a table has columns")
    _distinct("schema[0].properties", [column.name for column in columns])
    protection.check_key([column.name for column in columns if column.key], [(c.name, c.protection) for c in columns])
    rules = tuple(_rules(table))
    checks = tuple(checks_of(table))
    _distinct("schema[0].quality", [name.casefold() for name in (*(r.name for r in rules), *(c.name for c in checks))])
    for rule in rules:
        if "." in rule.name:
            raise ContractError(f"schema[0].quality ({rule.name}): a rule's name has no dot: those of columns have one")
    purpose = document.description.purpose if document.description else None
    return Contract(
        table=_source_name(table), version=document.version or "", status=document.status or "draft", columns=columns,
        rules=rules, checks=checks, description=table.description or purpose,
        owner=roles.get("owner"), steward=roles.get("steward"),
        freshness_seconds=levels.get("freshness"), retention_seconds=levels.get("retention"),
        blocking=_blocking(table),
        audiences=audiences(document.roles or (), {c.name: c.classification for c in columns}),
    )  # fmt: skip


def _blocking(table: SchemaObject) -> bool:
    said = custom(table.customProperties, "blocking", False)
    if not isinstance(said, bool):
        raise ContractError(f"schema[0].customProperties: blocking is {said!r}, not true or false")
    return said


def _source_name(table: SchemaObject) -> tuple[str, str]:
    schema, dot, name = (table.physicalName or table.name or "").partition(".")
    if not (schema and dot and name):
        raise ContractError(
            f"schema[0].physicalName is {table.physicalName!r}: write SCHEMA.TABLE, as the source has it"
        )
    return schema, name


def _column(found: SchemaProperty, place: int, defaults: Mapping[str, Protection]) -> Column:
    name = found.physicalName or found.name or ""
    where = f"schema[0].properties[{place - 1}] ({name})"
    options = dict(found.logicalTypeOptions or {})
    if "pattern" in options:
        _check_pattern(where, options["pattern"])
    key = (found.primaryKeyPosition or place) if found.primaryKey else 0
    action = _action(where, found.customProperties)
    required = bool(found.required) or bool(key)
    if action == "null" and BEYOND_RE2.search(f"{options.get('pattern', '')}"):
        raise ContractError(
            f"{where}: onViolation is null, with a pattern that looks around or back, of which `lakehouse verify` could"
            " not tell why the value isn't there. Use reject or warn."
        )
    if action == "null" and required:
        raise ContractError(f"{where}: onViolation is null, which a column that is required can't be")
    default = defaults.get(found.classification or "")
    protected = protection.own(where, custom(found.customProperties, protection.OWN, ...), default)
    protection.check(where, protected, bool(key), found.physicalType, found.logicalType)
    return Column(
        name=name, physical=found.physicalType, logical=found.logicalType, key=max(key, 0), required=required,
        unique=bool(found.unique), options={k: v for k, v in options.items() if k in OPTIONS},
        allowed=tuple(each.value for each in found.enum or ()), description=found.description,
        classification=found.classification, on_violation=action,
        protection=protected,
    )  # fmt: skip


def _rules(table: SchemaObject) -> Iterator[Rule]:
    """Return the row rules. Other checks are not of one row, and don't concern the stream."""
    for place, found in enumerate(table.quality or []):
        where = f"schema[0].quality[{place}]"
        if found.type == "custom" and found.engine == ENGINE:
            yield _rule(where, found)


def _rule(where: str, found: DataQuality) -> Rule:
    said = found.implementation
    if not found.name or not isinstance(said, str) or not said.strip():
        raise ContractError(f"{where}: a rule for {ENGINE} has a name, and a condition as its implementation")
    action = _action(where, found.customProperties)
    if action == "null":
        raise ContractError(f"{where} ({found.name}): onViolation is null, but of which column? Use reject or warn.")
    return Rule(found.name, said.strip(), action, found.description)


def _action(where: str, properties: list[CustomProperty] | None) -> Action:
    said = custom(properties, "onViolation", "warn")
    # YAML's own null isn't the word.
    action: Any = "null" if said is None else said
    if action not in ACTIONS:
        raise ContractError(f"{where}: onViolation is {said!r}, not one of {', '.join(ACTIONS)}")
    found: Action = action
    return found


def _check_pattern(where: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ContractError(f"{where}: pattern {pattern!r} isn't a regular expression: {error}") from None


def _seconds(name: str, value: Any, unit: str | None) -> float:
    try:
        return float(value) * SECONDS[(unit or "s").lower()]
    except (TypeError, ValueError, KeyError):
        raise ContractError(
            f"slaProperties: {name} is {value!r} {unit or ''}: write a number, and a unit of {', '.join(SECONDS)}"
        ) from None


def _distinct(where: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ContractError(f"{where}: {', '.join(twice)} more than once")
