"""What a batch does with each table."""

import pytest

from pipelines.mirror.plan import Step, TableState, step

CASES = [
    ("nothing came", TableState(), Step.IDLE),
    ("something came", TableState(has_offsets=True), Step.READ),
    ("it came, and can wait", TableState(has_offsets=True, can_wait=True), Step.WAIT),
    ("nothing came, and it could wait", TableState(can_wait=True), Step.IDLE),
    ("left out before, and nothing came since", TableState(left_out=True), Step.MIRROR),
    ("left out before, and it came again", TableState(left_out=True, has_offsets=True), Step.MIRROR),
    ("left out before, and can wait still", TableState(left_out=True, can_wait=True), Step.WAIT),
    ("never met", TableState(known=False), Step.MIRROR),
    ("never met, and something came", TableState(known=False, has_offsets=True), Step.MIRROR),
    ("its schema changed", TableState(news=True), Step.MIRROR),
    ("its schema changed, and it could wait", TableState(news=True, has_offsets=True, can_wait=True), Step.MIRROR),
    ("a resync has something left to do", TableState(awaits=True), Step.MIRROR),
    ("held", TableState(held=True), Step.HELD),
    ("held, and something came", TableState(held=True, has_offsets=True, left_out=True), Step.HELD),
    ("held, and a resync waits", TableState(held=True, awaits=True), Step.HELD),
    ("held, and it is time to try again", TableState(held=True, due=True), Step.MIRROR),
    ("held, and somebody has decided", TableState(held=True, news=True), Step.MIRROR),
    ("held before it was ever met", TableState(held=True, known=False), Step.HELD),
    ("under way", TableState(busy=True), Step.BUSY),
    (
        "under way, whatever else",
        TableState(busy=True, news=True, has_offsets=True, left_out=True, known=False),
        Step.BUSY,
    ),
]


@pytest.mark.parametrize(("label", "state", "expected"), CASES, ids=[case[0] for case in CASES])
def test_step(label: str, state: TableState, expected: Step) -> None:
    assert step(state) is expected


def test_only_what_is_read_or_mirrored_is_read() -> None:
    assert {each for each in Step if each.reads} == {Step.READ, Step.MIRROR}
