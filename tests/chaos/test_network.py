"""Connections between the services fail in every way, and heal: nothing lost, nothing doubled, no hand needed."""

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
