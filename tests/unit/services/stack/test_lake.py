"""The lake's catalog from outside: who waits for it, and for how long."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.stack.errors import Unreachable
from services.stack.lake import open_catalog
from tests.unit.services.console.house import settings


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and answers nobody."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_catalog_that_gives_no_answer_is_left_after_its_time(tmp_path: Path, silent: str) -> None:
    impatient = settings(tmp_path).model_copy(update={"catalog_uri": silent, "catalog_timeout_seconds": 0.2})
    with pytest.raises(Unreachable, match="ReadTimeout"):
        open_catalog(impatient)


def test_the_console_waits_for_so_long_only(tmp_path: Path) -> None:
    assert settings(tmp_path).catalog_timeout_seconds == 20
