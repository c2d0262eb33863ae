"""What every service's errors have in common: the message says what to do next, and a command prints it as it is."""


class LakehouseError(Exception):
    """Base of the errors that a command prints without a traceback."""


class NotConfigured(LakehouseError):
    """A setting is missing or not valid."""
