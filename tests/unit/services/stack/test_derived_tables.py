"""What is told where derived tables can't be computed."""

import pytest

from services.stack.derived_tables import _reason

SAID = [
    ("error: streams does not run\n  next: make status\n", "streams does not run; next: make status"),
    ('WARN Spark\n{"error": "the query can\'t be run", "event": "not_filled"}\nbye\n', "the query can't be run"),
    ("Traceback\nValueError: what?\n", "ValueError: what?"),
    ("", "it ended without a word; see `make logs s=streams`"),
]


@pytest.mark.parametrize(("said", "told"), SAID, ids=[told for _, told in SAID])
def test_the_reason_is_told_with_what_to_do(said: str, told: str) -> None:
    assert _reason(said) == told
