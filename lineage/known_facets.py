"""Known facets: the parts of facets that answers are made of. One that lacks them would spoil every answer.

Whatever else a facet holds is taken as it is. From the published schemas of the facets.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


class _Named(_Part):
    name: str


class _Identifier(_Named):
    namespace: str


class _Symlinks(_Part):
    identifiers: list[_Identifier] | None = None


class _Schema(_Part):
    fields: list[_Named] | None = None


class _Tag(_Part):
    key: str
    value: str
    field: str | None = None


class _Tags(_Part):
    tags: list[_Tag] | None = None


class _Source(_Identifier):
    field: str
    transformations: list[dict[str, Any]] | None = None


class _Made(_Part):
    inputFields: list[_Source] | None = None  # noqa: N815


class _ColumnLineage(_Part):
    fields: dict[str, _Made] | None = None


_KNOWN: dict[str, type[_Part]] = {
    "symlinks": _Symlinks, "schema": _Schema, "tags": _Tags, "columnLineage": _ColumnLineage,
}  # fmt: skip


def usable(facets: dict[str, Mapping[str, Any] | None]) -> dict[str, Mapping[str, Any] | None]:
    """Return a dataset's facets as they are. Raises ValueError that names the place of what can't be used."""
    for name, facet in facets.items():
        if facet is not None and name in _KNOWN:
            try:
                _KNOWN[name].model_validate(facet)
            except ValidationError as error:
                first = error.errors()[0]
                place = ".".join(map(str, (name, *first["loc"])))
                raise ValueError(f"{place}: {first['msg']}") from None
    return facets
