"""How long the verifier rests while tables wait to be looked after."""

import pytest

from services.verifier.rereads import URGENT_REST, Rereads
from services.verifier.service import LONGEST_REST

IDLE = 600.0


@pytest.mark.parametrize(
    ("waiting", "left", "rests"),
    [
        pytest.param(False, False, IDLE, id="nothing is left"),
        pytest.param(True, True, URGENT_REST, id="something can be done"),
        pytest.param(False, True, LONGEST_REST, id="a table is held, or can't be read again yet"),
    ],
)
def test_it_does_not_idle_while_it_would_be_woken_at_once(waiting: bool, left: bool, rests: float) -> None:
    rereads = Rereads(None, None, None, waiting=waiting, open=left)  # type: ignore[arg-type]
    assert rereads.bounded(IDLE, LONGEST_REST) == rests
