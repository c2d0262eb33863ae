"""Each server killed amid live changes, and the lake compared after each."""

import pytest

from tests.integration.stack import Stack
from tests.integration.test_mirror import SERVERS

pytestmark = pytest.mark.process


@pytest.mark.parametrize("server", SERVERS)
def test_a_killed_server_comes_back_and_nothing_is_lost(stack: Stack, server: str) -> None:
    with stack.workload(rate=5, seed=SERVERS.index(server), survives=server != "source-db"):
        stack.moves_on()
        stack.make("kill", f"s={server}")
        stack.up()
    with stack.workload(rate=5, seed=50 + SERVERS.index(server)):
        stack.moves_on()
    stack.assert_equal()
