"""What a table shall have, where the parts of a batch don't agree. Pure."""

import pytest

from pipelines.schema.plan import target_schema
from pipelines.schema.versions import TableVersions, Version
from pipelines.sources.debezium.envelope import table_shape
from pipelines.sources.postgres.dialect import POSTGRES
from pipelines.sources.postgres.schema_log import attribute
from tests.unit.pipelines.change_events import value_schema


def version(lsn: int, key: str) -> Version:
    columns = (attribute(1, key, "int8", -1, "bigint"), attribute(2, "note", "text", -1, "text"))
    return Version(lsn, 1, columns, (key,), False, "")


VERSIONS = TableVersions((version(1, "id"), version(5, "number")))


@pytest.mark.parametrize(("row", "key"), [("id", "id"), ("id", "number"), ("number", "id"), ("number", "number")])
def test_a_renamed_key_is_known_by_either_name(row: str, key: str) -> None:
    shape = table_shape(
        "shop.public.t", ("public", "t"), value_schema("t", {row: "long", "note": ["null", "string"]}), POSTGRES
    )
    wanted = target_schema(shape, (key,), VERSIONS, None)
    assert wanted.keys == ("number",)
    assert list(wanted.types) == ["number", "note"]
