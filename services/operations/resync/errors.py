"""What can stop a resync. Nothing is worse than before: run it again. Each message ends with what to do next."""

from services.stack.errors import LakehouseError


class CannotResync(LakehouseError):
    """Tables can't be read again like this, or it wasn't certain that all of them was."""


class NotResynced(LakehouseError):
    """It isn't done in time."""
