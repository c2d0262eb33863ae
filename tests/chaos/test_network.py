"""Connections between the services fail in every way, and heal: nothing lost, nothing doubled, no hand needed."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
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
    with _black_hole() as (address, swallowed), stack.workload(seed=60):
        # Down for a moment, so that no connection of before is left.
        network.on("registry", "down")
        registry = network.redirect("registry", address)
        network.off("registry")
        stack.sql("ALTER TABLE products ADD COLUMN unheard_of text", "UPDATE products SET unheard_of = 'of'")
        wait_until(lambda: any(b"/apis/registry/v2" in request for request in swallowed))
        # From now on the registry answers, only not on that connection.
        network.redirect("registry", registry)
        wait_until(lambda: _events(said, "stalled"))
        wait_until(lambda: _events(said, "flows again"))
    stack.assert_equal()


def _events(said: Callable[[], list[dict[str, Any]]], event: str) -> bool:
    return any(line["event"] == event for line in said())


@contextmanager
def _black_hole() -> Iterator[tuple[str, list[bytes]]]:
    """A server that takes whatever is sent to it, and never answers: its address, and what came first from each."""
    swallowed: list[bytes] = []
    with closing(socket.create_server(("127.0.0.1", 0))) as listener, ExitStack() as kept:

        def swallow(connection: socket.socket) -> None:
            with suppress(OSError):
                swallowed.append(connection.recv(65536))

        def take() -> None:
            with suppress(OSError):
                while True:
                    connection = kept.enter_context(closing(listener.accept()[0]))
                    threading.Thread(target=swallow, args=(connection,), daemon=True).start()

        threading.Thread(target=take, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}", swallowed
