"""Connections between the services fail in every way, and heal: nothing lost, nothing doubled, no hand needed."""

import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from services.operations.faults.switch import NETWORK
from tests.integration.stack import Stack, wait_until
from tests.integration.web_faults import web_faults

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
    asked, over = threading.Event(), threading.Event()

    def never() -> None:
        asked.set()
        over.wait()

    registry = network.upstream("registry")
    with web_faults(f"http://{registry}") as web, web.rule("POST", "^/apis/registry/v2/", then=never):
        with stack.workload(seed=60):
            network.redirect("registry", urlsplit(web.url).netloc)
            # What it asks for: a schema that it hasn't met.
            stack.sql("ALTER TABLE products ADD COLUMN unheard_of text", "UPDATE products SET unheard_of = 'of'")
            wait_until(asked.is_set)
            wait_until(lambda: _events(said, "stalled"))
            wait_until(lambda: _events(said, "flows again"))
            network.redirect("registry", registry)
            over.set()
    stack.assert_equal()


def _events(said: Callable[[], list[dict[str, Any]]], event: str) -> bool:
    return any(line["event"] == event for line in said())
