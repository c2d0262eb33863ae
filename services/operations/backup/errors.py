"""What can stop a backup or a restore. Each message ends with what to do next."""

from services.stack.errors import LakehouseError


class CannotBackUp(LakehouseError):
    """A backup can't be made, or isn't complete."""


class CannotRestore(LakehouseError):
    """A backup can't be restored here. Nothing was overwritten."""
