"""Which metrics there are: metrics.yaml, read once."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict

FILE = Path(__file__).with_name("metrics.yaml")


class Declared(BaseModel):
    """One metric, as it is declared. ``served_by``: the services that have it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["counter", "gauge"]
    unit: str
    meaning: str
    labels: tuple[str, ...] = ()
    served_by: tuple[str, ...]


@cache
def declared() -> Mapping[str, Declared]:
    """Return all metrics, by name."""
    found = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return {name: Declared.model_validate(each) for name, each in found.items()}
