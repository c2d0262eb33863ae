"""What can go wrong with asking for lineage."""

from services.stack.errors import LakehouseError


class CannotTell(LakehouseError):
    """What was asked for isn't known, or not by that name."""
