"""Files are written and read at the locations that Iceberg gives, whatever characters these have."""

from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.lake.storage import Storage


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
@pytest.mark.parametrize("name", ["plain", "what?", "no#1", "50%", "a b", "\u6ce8\u6587"])
def test_a_name_may_have_any_character(tmp_path: Path, scheme: str, name: str) -> None:
    storage, location = Storage(), f"{scheme}{tmp_path}/{name}/data.parquet"
    storage.write(location, pa.py_buffer(b"rows"))
    with storage.open(location) as file:
        assert file.read() == b"rows"
    assert (tmp_path / name / "data.parquet").read_bytes() == b"rows"
