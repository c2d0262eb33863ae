"""Rows that change though no event tells it, all kinds at once: in the end the lake equals its source."""

from tests.integration.stack import Stack
from tests.integration.unseen import SILENT, TABLES, change


def test_all_that_no_event_tells_is_found_and_read_again(stack: Stack) -> None:
    change(stack, TABLES, SILENT)
