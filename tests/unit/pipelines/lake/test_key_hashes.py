"""Equal keys have equal hashes, whatever the type; others hardly ever."""

import datetime
import decimal
import uuid

import numpy as np
import pyarrow as pa
import pytest

from pipelines.lake.key_hashes import hash_keys

UTC, UUID = datetime.UTC, pa.binary(16)
TYPES = {
    "int": pa.array([0, 1, -1, 2**31 - 1], pa.int32()),
    "long": pa.array([0, 1, -1, 2**63 - 1], pa.int64()),
    "text": pa.array(["", "a", "aa", "a\x00", "a" * 9, "ä"]),
    "text that ends in zeros": pa.array(["a", "a\x00", "a\x00\x00", "\x00", ""]),
    "bytes": pa.array([b"", b"\x00", b"\x00\x00", b"12345678", b"123456789"]),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([uuid.UUID(int=i).bytes for i in (0, 1)], UUID)),
    "decimal": pa.array([decimal.Decimal("1.10"), decimal.Decimal("-1.10"), decimal.Decimal("11.00")]),
    "date": pa.array([datetime.date(1, 1, 1), datetime.date(1970, 1, 1), datetime.date(9999, 12, 31)]),
    "timestamp": pa.array([datetime.datetime(1970, 1, 1, tzinfo=UTC), datetime.datetime(2024, 1, 1, tzinfo=UTC)]),
    "boolean": pa.array([True, False]),
    "double": pa.array([0.0, 1.5, -1.5, float("inf")]),
    "float": pa.array([0.0, 1.5, -1.5], pa.float32()),
}  # fmt: skip


@pytest.mark.parametrize("column", TYPES.values(), ids=TYPES)
def test_values_of_every_type_are_told_apart(column: pa.Array) -> None:
    hashes = hash_keys([column])
    assert len(set(hashes.tolist())) == len(column)
    assert (hashes == hash_keys([pa.concat_arrays([column, column])])[: len(column)]).all()


def test_a_text_has_one_hash_beside_whatever_it_lies() -> None:
    alone, beside = hash_keys([pa.array(["key"])]), hash_keys([pa.array(["x" * 100, "key"])])
    assert alone[0] == beside[1]


@pytest.mark.parametrize(("one", "other"), [(0.0, -0.0), (float("nan"), -float("nan"))], ids=["zero", "no number"])
def test_what_spark_calls_equal_has_one_hash(one: float, other: float) -> None:
    assert hash_keys([pa.array([one])]) == hash_keys([pa.array([other])])


def test_the_columns_of_a_key_have_an_order() -> None:
    one, two = pa.array([1, 2], pa.int64()), pa.array([2, 1], pa.int64())
    hashes = hash_keys([one, two])
    assert hashes[0] != hashes[1]
    assert hash_keys([pa.array(["ab"]), pa.array(["c"])]) != hash_keys([pa.array(["a"]), pa.array(["bc"])])


def test_many_are_told_apart() -> None:
    numbers = hash_keys([pa.array(np.arange(200_000))])
    texts = hash_keys([pa.array([f"customer {i}" for i in range(200_000)])])
    assert len(np.unique(numbers)) == len(np.unique(texts)) == 200_000
