"""Which table has a name now, and whether it is there."""

import pytest

from pipelines.schema.versions import Attribute, Version, table_versions

COLUMN = Attribute(1, "id", "int8", -1, "bigint")


def version(position: int, relation: int = 1, gone: bool = False) -> Version:
    return Version(position, relation, () if gone else (COLUMN,), (), False, f"at {position}")


@pytest.mark.parametrize(
    ("found", "known", "replaced_at", "gone"),
    [
        ([], [], None, False),
        ([version(1), version(5)], [1, 5], None, False),
        ([version(1), version(5, gone=True)], [1], None, True),
        ([version(5, gone=True), version(1), version(9)], [1, 9], None, False),
        ([version(1), version(5, gone=True), version(9, relation=2)], [9], 5, False),
    ],
    ids=["nothing was written down", "it is there", "it is gone", "it is back", "another one has its name"],
)
def test_versions_of_a_name(found: list[Version], known: list[int], replaced_at: int | None, gone: bool) -> None:
    table = table_versions(found)
    assert [each.log_position for each in table.versions] == known
    assert (table.replaced_at, table.gone) == (replaced_at, gone)
