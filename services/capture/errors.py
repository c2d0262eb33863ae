"""Errors say what is to be done. Their messages end with the next command."""

from services.stack.errors import LakehouseError


class CaptureError(LakehouseError):
    """Base of this package's errors."""


class NotReady(CaptureError):
    """A server didn't answer in time, or isn't ready yet; the same may work a little later."""


class Refused(CaptureError):
    """A server answered, and said no; a person must change something."""
