"""Custom: what a contract says in words of ours, in the standard's custom properties."""

from typing import Any

from open_data_contract_standard.model import CustomProperty


def custom(properties: list[CustomProperty] | None, name: str, default: Any = None) -> Any:
    """Return the value of a custom property, or ``default`` where it isn't there."""
    return next((p.value for p in properties or () if p.property == name), default)
