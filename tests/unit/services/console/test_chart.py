"""Which answers are drawn, and how."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from services.console.chart import MOST_BARS, Chart, chart
from services.console.query import Answer

DAY = datetime(2026, 3, 1, tzinfo=UTC).timestamp()


def answer(*rows: tuple[Any, ...]) -> Answer:
    names = ("at", "first", "second", "third")
    return Answer(names[: len(rows[0])] if rows else ("at", "first"), (), rows)


@pytest.mark.parametrize(
    ("asked", "drawn"),
    [
        pytest.param(answer((2, 1.5), (1, None)), Chart([1.0, 2.0], {"first": [None, 1.5]}, False), id="by numbers"),
        pytest.param(
            answer((date(2026, 3, 2), 1), (date(2026, 3, 1), 2)),
            Chart([DAY, DAY + 86400], {"first": [2.0, 1.0]}, True), id="by days",
        ),
        pytest.param(
            answer((datetime(2026, 3, 1), Decimal("1.5"), "x"), (datetime(2026, 3, 1, 1, tzinfo=UTC), 2, "y")),
            Chart([DAY, DAY + 3600], {"first": [1.5, 2.0]}, True), id="by times, with words left out",
        ),
        pytest.param(
            answer(("b", 1, 2), ("a", 3, 4), (None, 5, 6)),
            Chart([0.0, 1.0, 2.0], {"first": [1.0, 3.0, 5.0]}, False, ["b", "a", "None"]),
            id="bars of words, in their order, of the first numbers",
        ),
        pytest.param(answer(*((f"w{n}", n) for n in range(MOST_BARS + 1))), None, id="too many words"),
        pytest.param(answer((1, 2)), None, id="one row"),
        pytest.param(answer((1,), (2,)), None, id="one column"),
        pytest.param(answer((1, "a"), (2, "b")), None, id="no numbers"),
        pytest.param(answer((1, True), (2, False)), None, id="truths are no numbers"),
        pytest.param(answer((1, None), (2, None)), None, id="nothing but null"),
        pytest.param(answer(), None, id="no rows"),
        pytest.param(Answer(error="no"), None, id="no answer"),
    ],
)  # fmt: skip
def test_what_is_drawn(asked: Answer, drawn: Chart | None) -> None:
    assert chart(asked) == drawn
