"""What is said of a row that Kafka doesn't take."""

import pytest

from pipelines.sources.base.capture import LargeRow
from services.capture.large_rows import is_too_large, told

MIB = 1024**2


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (LargeRow("public.scans", {"id": "7", "at": "now"}, 200 * MIB),
         "a row of public.scans (at now, id 7) is a record of 200.0 MiB, more than LARGEST_ROW_MIB=64 lets through"),
        (LargeRow("public.scans", {}, 200 * MIB), "a row of public.scans (without a key) is a record of 200.0 MiB"),
        (LargeRow("public.scans", {"id": "x" * 1000}, 200 * MIB), f"a row of public.scans (id {'x' * 60}…) is"),
        (None, "a record is too large: more than LARGEST_ROW_MIB=64 lets through"),
    ],
    ids=["its key", "no key", "a long key", "it isn't found"],
)  # fmt: skip
def test_a_row_is_told_by_table_and_key(row: LargeRow | None, said: str) -> None:
    found = told(row, 64)
    assert found.startswith(said)
    assert found.endswith("see infra/runbooks/row-too-large.md")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("org.apache.kafka.common.errors.RecordTooLargeException: The message is 3145837 bytes when serialized", True),
        ("org.apache.kafka.common.errors.TimeoutException: Topic t not present", False),
        (None, False),
    ],
    ids=["too large", "another", "none"],
)
def test_it_is_known_by_kafkas_name(error: str | None, expected: bool) -> None:
    assert is_too_large(error) is expected
