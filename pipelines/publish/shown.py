"""Shown: which part of which table a role is shown, and where that is in the lake. Needs no Spark."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from pipelines.lake.names import lake_namespace
from quality.audience import Audience
from quality.contract import Contract


@dataclass(frozen=True)
class Shown:
    """What a role is shown of the table that a contract is of."""

    source: str
    contract: Contract
    audience: Audience

    @classmethod
    def of(cls, source: str, contracts: Iterable[Contract]) -> list[Self]:
        """Return all that contracts show anybody."""
        return [cls(source, contract, audience) for contract in contracts for audience in contract.audiences]

    @property
    def mirrored(self) -> tuple[str, str]:
        """Namespace and name of the table in the lake."""
        schema, name = self.contract.table
        return lake_namespace(self.source, schema), name

    @property
    def name(self) -> tuple[str, str]:
        """Namespace and name of the dataset."""
        namespace, name = self.mirrored
        return f"{self.audience.role}_{namespace}", name

    def location(self, root: str) -> str:
        """Where it is: below the one prefix that its role may read."""
        namespace, name = self.mirrored
        return f"{root}/{self.audience.role}/{namespace}/{name}"
