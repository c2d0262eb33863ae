"""Shown: which part of which table a role is shown, and where that is in the lake. Needs no Spark."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from pipelines.lake.names import lake_table
from pipelines.specs.load import Specs
from quality.audience import Audience
from quality.contract import Contract


@dataclass(frozen=True)
class Shown:
    """What a role is shown of the table that a contract is of. ``table``: its namespace and name in the lake."""

    table: tuple[str, str]
    contract: Contract
    audience: Audience

    @classmethod
    def of(cls, specs: Specs, source: str, contracts: Iterable[Contract]) -> list[Self]:
        """Return all that contracts show anybody."""
        return [
            cls(lake_table(specs, source, contract.table), contract, audience)
            for contract in contracts for audience in contract.audiences
        ]  # fmt: skip

    @property
    def name(self) -> tuple[str, str]:
        """Namespace and name of the dataset."""
        namespace, name = self.table
        return f"{self.audience.role}_{namespace}", name

    def location(self, root: str) -> str:
        """Where it is: below the one prefix that its role may read."""
        namespace, name = self.table
        return f"{root}/{self.audience.role}/{namespace}/{name}"
