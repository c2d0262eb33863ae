"""Write what a table's contract says into the table's own metadata, where every engine shows it."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from pipelines.lake.iceberg_schema import INEXACT
from pipelines.lake.properties import (
    COMMENT,
    CONTRACT_CLASSES,
    CONTRACT_FRESHNESS,
    CONTRACT_OWNER,
    CONTRACT_PREFIX,
    CONTRACT_PROTECTED,
    CONTRACT_RETENTION,
    CONTRACT_STATUS,
    CONTRACT_STEWARD,
    CONTRACT_VERSION,
)
from pipelines.lake.table import LakeTable
from pipelines.protection.columns import column_protections
from pipelines.schema.technical import TECHNICAL
from quality.contract import Column, Contract
from quality.protection import Protection


class Description:
    """What a table's contract says, written once and whenever the table's columns change. See :func:`describe`."""

    def __init__(self, contract: Contract | None) -> None:
        self._contract = contract
        self._written: tuple[str, int] | None = None

    def is_written(self, table: LakeTable) -> bool:
        """Return whether the table, with the columns that it has now, has been given its description."""
        return self._written == table.identity

    def write(self, table: LakeTable) -> list[str]:
        """Describe ``table`` unless that is done, and return what was changed."""
        changed = [] if self.is_written(table) else describe(table, self._contract)
        self._written = table.identity
        return changed


def describe(table: LakeTable, contract: Contract | None) -> list[str]:
    """Write what ``contract`` says into the table's metadata, in one commit, and return what was changed.

    It goes into properties and the columns' comments. What an earlier contract said is removed; None: the table has no
    contract any more.
    """
    table.refresh()
    properties = table.properties
    known = {name for name in properties if name.startswith(CONTRACT_PREFIX)}
    if contract is None and not known:
        return []
    protected = {name: entry.how for name, entry in column_protections(properties).items()}
    contract_properties = _properties(contract, protected) if contract is not None else {}
    gone = (known | ({COMMENT} & properties.keys())) - contract_properties.keys()
    news = {name: value for name, value in contract_properties.items() if properties.get(name) != value}
    comments = dict(_comments(table, contract, protected))
    if not (gone or news or comments):
        return []
    table.alter([partial(comment, comments=comments)] if comments else [], news, gone)
    return [*sorted(news), *(f"{name} is gone" for name in sorted(gone)), *(f"comment of {name}" for name in comments)]


def comment_of(column: Column, protection: Protection | None = None) -> str | None:
    """Return what is shown of a column: its description, how it is classified, and what was done to its values."""
    words = [column.description, column.classification and f"[{column.classification}]"]
    words += [protection and f"[protected: {protection}]"]
    return " ".join(word for word in words if word) or None


def _properties(contract: Contract, protected: Mapping[str, Protection]) -> dict[str, str]:
    classes = {c.name: c.classification for c in contract.columns if c.classification}
    properties = {
        COMMENT: contract.description,
        CONTRACT_VERSION: contract.version,
        CONTRACT_STATUS: contract.status,
        CONTRACT_OWNER: contract.owner,
        CONTRACT_STEWARD: contract.steward,
        CONTRACT_CLASSES: json.dumps(classes) if classes else None,
        CONTRACT_PROTECTED: json.dumps(protected) if protected else None,
        CONTRACT_FRESHNESS: _number(contract.freshness_seconds),
        CONTRACT_RETENTION: _number(contract.retention_seconds),
    }
    return {name: value for name, value in properties.items() if value}


def _number(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds:g}"


def _comments(
    table: LakeTable, contract: Contract | None, protected: Mapping[str, Protection]
) -> Iterator[tuple[str, str | None]]:
    """Yield the columns whose comment isn't what it shall be, and what it shall be."""
    for name, current in table.comments.items():
        column = contract.column(name) if contract is not None else None
        # What the lake can't hold of the column it says itself.
        _, inexact, lost = (current or "").partition(INEXACT)
        words = [column and comment_of(column, protected.get(name)), inexact and f"{inexact}{lost}"]
        text = " ".join(word for word in words if word) or None
        if name not in TECHNICAL and text != current:
            yield name, text


def comment(update: Any, comments: Mapping[str, str | None]) -> Any:
    """Give Iceberg's UpdateSchema these comments of columns (None: none), and return it."""
    for name, comment in comments.items():
        update = update.updateColumnDoc(name, comment)
    return update
