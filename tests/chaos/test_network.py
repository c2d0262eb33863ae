"""Connections between the services fail in every way, and heal: nothing lost, nothing doubled, no hand needed."""

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from services.faults.switch import NETWORK
from tests.integration.stack import Stack, wait_until

pytestmark = pytest.mark.process

# For how many transactions of the workload a fault lasts.
LASTS = 200


@pytest.mark.parametrize("fault", NETWORK)
def test_a_fault_of_the_network_heals_by_itself(stack: Stack, fault: str) -> None:
    with stack.workload(seed=list(NETWORK).index(fault)):
        stack.faults.on(fault)
        until = stack.transactions() + LASTS
        wait_until(lambda: stack.transactions() > until)
        stack.faults.off(fault)
        until += LASTS
        wait_until(lambda: stack.transactions() > until)
    stack.assert_equal()


def test_a_request_that_is_never_answered_stops_capture_for_minutes_only(stack: Stack) -> None:
    network, said = stack.faults.network, stack.said("capture")
    registry = network.upstream("registry")
    with _between(registry) as middle, stack.workload(seed=60):
        network.redirect("registry", middle.address)
        # What it asks for: a schema that it hasn't met.
        stack.sql("ALTER TABLE products ADD COLUMN unheard_of text", "UPDATE products SET unheard_of = 'of'")
        wait_until(lambda: b"/apis/registry/v2" in b"".join(middle.swallowed))
        # From now on the registry answers, only not on the connections of before.
        middle.silent = False
        wait_until(lambda: _events(said, "stalled"))
        wait_until(lambda: _events(said, "flows again"))
        network.redirect("registry", registry)
    stack.assert_equal()


def _events(said: Callable[[], list[dict[str, Any]]], event: str) -> bool:
    return any(line["event"] == event for line in said())


class _Middle(socketserver.ThreadingTCPServer):
    """Passes on what comes, both ways. A connection made while it is silent stays open and gets no answer, for ever."""

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        host, port = upstream.rsplit(":", 1)
        self.upstream = (host, int(port))
        self.silent, self.swallowed = True, list[bytes]()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Connection(socketserver.BaseRequestHandler):
    request: socket.socket
    server: _Middle

    def handle(self) -> None:
        if self.server.silent:
            _pass_on(self.request, self.server.swallowed.append)
            return
        with socket.create_connection(self.server.upstream) as upstream:
            answers = threading.Thread(target=_pass_on, args=(upstream, self.request.sendall), daemon=True)
            answers.start()
            _pass_on(self.request, upstream.sendall)


def _pass_on(source: socket.socket, take: Callable[[bytes], object]) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            take(data)


@contextmanager
def _between(upstream: str) -> Iterator[_Middle]:
    with _Middle(upstream) as middle:
        threading.Thread(target=middle.serve_forever, daemon=True).start()
        yield middle
        middle.shutdown()
