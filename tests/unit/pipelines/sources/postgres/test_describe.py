"""What kind of values a contract says that PostgreSQL's types have."""

import pytest

from pipelines.sources.postgres.describe import logical_type

CASES = {
    "whole number": ("bigint", "int8", "N", "integer"),
    "number": ("numeric(14,2)", "numeric", "N", "number"),
    "domain over a whole number": ("quantity", "integer", "N", "integer"),
    "text": ("text", "text", "S", "string"),
    "enum": ("order_status", "order_status", "E", "string"),
    "time of day": ("time without time zone", "time", "D", "time"),
    "timestamp": ("timestamp with time zone", "timestamptz", "D", "timestamp"),
    "array": ("integer[]", "_int4", "A", "array"),
    "unknown": ("uuid", "uuid", "U", "string"),
}


@pytest.mark.parametrize(("declared", "base", "category", "logical"), CASES.values(), ids=CASES)
def test_logical_type(declared: str, base: str, category: str, logical: str) -> None:
    assert logical_type(declared, base, category) == logical
