"""docs/guides/walkthrough.md: its commands are run as they stand there, and what they print is held against it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from pipelines.protection.crypto import ProtectionKeys
from tests.integration.guides import lacking, outputs, script, steps
from tests.integration.stack import CHECKOUT, Stack, wait_until
from tests.integration.test_published import catalog

pytestmark = pytest.mark.process

DOCUMENT, CONTRACT = "docs/guides/walkthrough.md", "quality/contracts/public.customers.yaml"
TEST = "tests/integration/test_walkthrough.py::test_the_walk_through_goes_as_it_is_written"


@pytest.fixture
def put_back(stack: Stack) -> Iterator[None]:
    """However the walk ends, the contract is as it was, and so are the shop's customers."""
    contract = stack.folder / CONTRACT
    before = contract.read_text(encoding="utf-8")
    yield
    stack.sql("DELETE FROM customers WHERE customer_id < 0")
    if contract.read_text(encoding="utf-8") != before:
        contract.write_text(before, encoding="utf-8")
        stack.up()


@pytest.mark.usefixtures("put_back")
def test_the_walk_through_goes_as_it_is_written(stack: Stack) -> None:
    walked = steps(Path(DOCUMENT), TEST)
    printed = outputs(stack.bash(script(walked)))
    assert len(printed) == len(walked)
    for step, said in zip(walked, printed, strict=True):
        assert step.shown is not None
        lacks = lacking(step.shown, said)
        assert lacks is None, f"{DOCUMENT}, line {step.line}: not printed: {lacks}\n{said}"

    everything = "".join(printed)
    keys = ProtectionKeys.of(SecretStr(stack.setting("PROTECTION_KEY")))
    assert keys is not None
    assert f"-1 {keys.hashed('adabecker.1@example.com')} ***cker gold" in everything
    assert not [secret for secret in stack.secrets if secret in everything]

    assert (stack.folder / CONTRACT).read_text() == (CHECKOUT / CONTRACT).read_text()
    stack.assert_equal("customers")
    assert not stack.lakehouse("dlq", "list", "--key=-4")["letters"]
    wait_until(lambda: "full_name" not in columns(stack))


def columns(stack: Stack) -> list[str]:
    """What the restricted role is shown of customers."""
    return list(catalog(stack, "restricted").load_table("restricted_shop.customers").schema().column_names)
