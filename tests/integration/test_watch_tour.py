"""The tour through the lake, as somebody who opens the notebook runs it."""

import subprocess

import pytest

from tests.integration.stack import CHECKOUT, PYTHON, WAIT_SECONDS, Stack

pytestmark = pytest.mark.process


def test_the_tour_sees_one_row_in_three_engines(stack: Stack) -> None:
    stack.run_shop("load", "--scale", "0.01")
    stack.lakehouse("wait")
    tour = CHECKOUT / "docs/notebooks/tour.py"
    done = subprocess.run(
        [PYTHON, tour], cwd=stack.folder, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for said in ("s after its commit", "PyIceberg: {'order_id'", "DuckDB: {", "Spark: {'orders'", "snapshots; order",
                 "upstream: shop.public.orders", "rows of the last hour", "is as it was"):  # fmt: skip
        assert said in done.stdout, f"{said!r} isn't in\n{done.stdout}"
    pictures = sorted(path.name for path in (stack.folder / ".lakehouse/tour").iterdir())
    assert pictures == ["freshness.png", "rows.png"]
    stack.assert_equal("orders")
