"""The bounds of the verifier's load."""

import pytest

from services.verifier.settings import VerifierSettings


@pytest.mark.parametrize(
    ("label", "rows", "seconds", "rest"),
    [("rows bound it", 20_000, 2, 18), ("its share of the time bounds it", 100, 4, 36), ("nothing was read", 0, 0, 0)],
)
def test_it_rests_as_long_as_both_bounds_ask(label: str, rows: int, seconds: float, rest: float) -> None:
    settings = VerifierSettings.model_construct(verifier_rows_per_second=1000.0, verifier_share=0.1)
    assert settings.rest(rows, seconds) == pytest.approx(rest), label
