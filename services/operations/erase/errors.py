"""What keeps a row from being erased. Each message ends with what to do next."""

from services.stack.errors import LakehouseError


class CannotErase(LakehouseError):
    """Nothing was erased, or not all of it: the same command goes on where it ended."""
