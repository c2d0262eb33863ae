"""Protection: what becomes of a column's values before they reach the lake, as its contract says. Pure.

Said by the custom property ``protection`` of a column, or for all columns of a classification by ``protect`` of the
table (``{personal: hash}``); the column's own word wins, and ``none`` leaves it as it is.

- ``drop``: the lake has null;
- ``hash``: HMAC-SHA-256 (RFC 2104) of the value's text, in hexadecimal: equal for equal values, in any table;
- ``tokenise``: the value's text, encrypted so that equal values have equal tokens; who has the key can read them;
- ``mask``: a hint that people recognise (:func:`masked`);
- ``encrypt``: the value's text, encrypted each time anew; who has the key can read it.

All but the first are text in the lake, whatever the column's type is in the source.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, get_args

from quality.errors import ContractError

Protection = Literal["drop", "hash", "tokenise", "mask", "encrypt"]
PROTECTIONS = get_args(Protection)
NONE = "none"
# The custom properties: a column's own, and the table's by classification.
OWN, BY_CLASS = "protection", "protect"
# Of a mask: what stands for what isn't shown, how much of a text's end is, and of how long a text.
HIDDEN, SHOWN, LONG = "***", 4, 8
# What PostgreSQL calls the types whose values no two engines write alike.
_UNWRITTEN = ("real", "double precision", "hstore")


def masked(text: str) -> str:
    """Return the hint at a value that a mask leaves.

    An e-mail address keeps its domain, a text of more than 8 characters its last 4, others nothing.
    """
    name, _, domain = text.partition("@")
    if name and domain and "@" not in domain:
        return f"{HIDDEN}@{domain}"
    return HIDDEN + (text[-SHOWN:] if len(text) > LONG else "")


def by_class(said: Any) -> Mapping[str, Protection]:
    """Classification to protection, from what the table's custom property says. Raises ContractError."""
    if said is None:
        return {}
    if not isinstance(said, Mapping):
        raise ContractError(f"schema[0].customProperties: {BY_CLASS} is {said!r}, not classifications with protections")
    found = {f"{name}": _word(f"schema[0].customProperties: {BY_CLASS} of {name}", word) for name, word in said.items()}
    return {name: word for name, word in found.items() if word is not None}


def own(where: str, said: Any, default: Protection | None) -> Protection | None:
    """Return a column's, from what its custom property says (...: it has none). Raises ContractError."""
    return default if said is ... else _word(where, said)


def check(where: str, protection: Protection | None, key: bool, physical: str | None, logical: str | None) -> None:
    """Raise ContractError for a column that can't have this protection."""
    if protection is None:
        return
    if key:
        raise ContractError(
            f"{where}: {OWN} is {protection}, which a column of the key can't have: rows are found by its value."
            f" Leave it out, or say {NONE}."
        )
    if protection != "drop" and (
        logical == "array" or (physical or "").endswith("[]") or (physical or "") in _UNWRITTEN
    ):
        raise ContractError(
            f"{where}: {OWN} is {protection}, but values of type {physical or logical} have no text that every engine"
            f" writes alike. Say drop, or {NONE}."
        )


def check_key(key: Collection[str], protections: Iterable[tuple[str, Protection | None]]) -> None:
    """Raise ContractError where a table has no key, and a protection that only does where there is one."""
    for name, protection in protections:
        if protection == "encrypt" and not key:
            raise ContractError(
                f"schema[0].properties ({name}): {OWN} is encrypt, and the contract names no primaryKey. Without a key"
                " rows are found by all their values, and equal ones are encrypted differently. Say tokenise."
            )


def _word(where: str, said: Any) -> Protection | None:
    if said == NONE:
        return None
    if said not in PROTECTIONS:
        raise ContractError(f"{where}: {OWN} is {said!r}, not one of {', '.join((*PROTECTIONS, NONE))}")
    found: Protection = said
    return found
