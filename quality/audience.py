"""Audience: what a role is shown of a table, from ``roles`` of its contract. Pure.

A role with the custom property ``shows`` has a dataset of its own, under a prefix of the object store that it may read
while it may not read the table: ``all`` columns that the contract names, or a list of them. ``protect`` says what
becomes of columns, by name or by classification (``drop``: left out; ``hash``, ``tokenise``, ``mask``:
:mod:`quality.protection`); a column's own word wins. ``rows`` is a condition in Spark's SQL for the rows that it is
shown. What the contract doesn't name nobody is shown.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from open_data_contract_standard.model import Role

from quality.custom import custom
from quality.errors import ContractError
from quality.protection import NONE, Protection

ROLE = re.compile(r"[a-z][a-z0-9_]*")
# What becomes of a value, by the word for it; without one it is as it is.
PROTECTIONS: Mapping[str | None, Protection | None] = {
    None: None, NONE: None, "hash": "hash", "tokenise": "tokenise", "mask": "mask"
}  # fmt: skip
WORDS = ("drop", "hash", "tokenise", "mask", NONE)
ALL = "all"


@dataclass(frozen=True)
class Audience:
    """What a role is shown.

    ``columns``: those that the role is shown, and what becomes of their values; ``rows``: None: all.
    """

    role: str
    columns: Mapping[str, Protection | None]
    rows: str | None = None


def audiences(roles: Iterable[Role], columns: Mapping[str, str | None]) -> tuple[Audience, ...]:
    """Return what each role is shown, of the roles that are shown something.

    ``columns``: the contract's, with their classification.

    Raises ContractError.
    """
    found = tuple(
        _audience(f"roles[{place}] ({role.role})", role, columns) for place, role in enumerate(roles)
        if custom(role.customProperties, "shows") is not None
    )  # fmt: skip
    names = [audience.role for audience in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ContractError(f"roles: {', '.join(twice)} more than once")
    return found


def _audience(where: str, role: Role, columns: Mapping[str, str | None]) -> Audience:
    if not ROLE.fullmatch(role.role or ""):
        raise ContractError(f"{where}: a role that is shown something has a name of a-z, 0-9 and _")
    if role.access not in (None, "read"):
        raise ContractError(f"{where}: access is {role.access!r}; what a role is shown it may read")
    shown = _shown(where, custom(role.customProperties, "shows"), columns)
    words = _words(where, custom(role.customProperties, "protect"), columns)
    done = {name: words.get(name, words.get(columns[name] or "")) for name in shown}
    rows = custom(role.customProperties, "rows")
    if rows is not None and (not isinstance(rows, str) or not rows.strip()):
        raise ContractError(f"{where}: rows is {rows!r}, not a condition")
    kept = {name: PROTECTIONS[word] for name, word in done.items() if word != "drop"}
    if not kept:
        raise ContractError(f"{where}: it is shown no column")
    return Audience(role.role or "", kept, rows.strip() if rows else None)


def _shown(where: str, said: Any, columns: Mapping[str, str | None]) -> list[str]:
    if said == ALL:
        return list(columns)
    if not isinstance(said, list) or not said:
        raise ContractError(f"{where}: shows is {said!r}, neither {ALL} nor a list of columns")
    unknown = [f"{name}" for name in said if name not in columns]
    if unknown:
        raise ContractError(f"{where}: shows {', '.join(unknown)}, which the contract doesn't name")
    return [name for name in columns if name in said]


def _words(where: str, said: Any, columns: Mapping[str, str | None]) -> Mapping[str, str]:
    if said is None:
        return {}
    if not isinstance(said, Mapping):
        raise ContractError(f"{where}: protect is {said!r}, not columns or classifications with what becomes of them")
    known = {*columns, *(kind for kind in columns.values() if kind)}
    for name, word in said.items():
        if name not in known:
            raise ContractError(f"{where}: protect names {name}, which is neither a column nor a classification here")
        if word not in WORDS:
            raise ContractError(f"{where}: protect of {name} is {word!r}, not one of {', '.join(WORDS)}")
    return {f"{name}": f"{word}" for name, word in said.items()}
