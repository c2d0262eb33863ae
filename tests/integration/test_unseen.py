"""Rows that change though no event tells it: found, read again, and in the end the lake equals its source.

All of it: tests/chaos/test_unseen.py; what is found, and how: tests/integration/capture/test_prepare.py.
"""

from tests.integration.stack import Stack
from tests.integration.unseen import SILENT, TABLES, change


def test_what_no_event_tells_is_found_and_read_again(stack: Stack) -> None:
    change(stack, {name: TABLES[name] for name in ("cents", "whole", "unlogged")}, {"silent": SILENT["silent"]})
