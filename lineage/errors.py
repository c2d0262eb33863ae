"""What can go wrong with lineage and is the caller's to mend."""


class LineageError(Exception):
    """What to do is in its message."""


class NotAnEvent(LineageError):
    """What was sent isn't an OpenLineage event."""
