"""A port that nobody has."""

import socket

import pytest


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])
