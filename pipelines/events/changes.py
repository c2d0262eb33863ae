"""How one type of a column differs from another. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pipelines.schema.lake_types import is_promoted, printed


@dataclass(frozen=True)
class StreamChange:
    """One difference of what a table has from what its schemas say. ``place``: the column, or what is within it."""

    kind: Literal["add", "widen", "change"]
    place: str
    to: str

    def __str__(self) -> str:
        return f"{self.kind} {self.place} {self.to}"


def type_changes(place: str, has: Any, wanted: Any) -> Iterator[StreamChange]:
    """Yield what a type, which ``has`` (None: there is none), lacks of what is wanted; both in Iceberg's JSON form."""
    if has is None:
        yield StreamChange("add", place, printed(wanted))
    elif isinstance(has, Mapping) and isinstance(wanted, Mapping) and has["type"] == wanted["type"]:
        for name, mine, other in _within(has, wanted):
            yield from type_changes(f"{place}{name}", mine, other)
    elif printed(has) != printed(wanted) and not is_promoted(printed(wanted), printed(has)):
        # What was widened before stays so.
        kind: Literal["widen", "change"] = "widen" if is_promoted(printed(has), printed(wanted)) else "change"
        yield StreamChange(kind, place, f"{printed(has)} to {printed(wanted)}")


def _within(has: Mapping[str, Any], wanted: Mapping[str, Any]) -> Sequence[tuple[str, Any, Any]]:
    if has["type"] == "list":
        return [("[]", has["element"], wanted["element"])]
    if has["type"] == "map":
        return [(".*", has["value"], wanted["value"])]
    known = {field["name"]: field["type"] for field in has["fields"]}
    return [(f".{field['name']}", known.get(field["name"]), field["type"]) for field in wanted["fields"]]
