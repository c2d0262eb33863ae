"""The parts of some types' values that the connector doesn't keep: columns' comments say so, for events can't."""

UNBOUNDED = "an array's lower bounds, and all elements of an array with more than one dimension"
_LOST = {
    "VARBIT": "leading zeros",
    "TIMETZ": "the offset: the time is that in UTC",
    "_TIMETZ": f"the offsets: times are those in UTC; {UNBOUNDED}",
}


def lost(source_type: str, without_null: bool = False) -> str | None:
    """Return what of a value of this type (as the connector names it, in capitals) isn't in the events; None: nothing.

    ``without_null``: the events' schema has no null among an array's elements.
    """
    if without_null:
        return f"the whole array where an element is null; {UNBOUNDED}"
    return _LOST.get(source_type) or (UNBOUNDED if source_type.startswith("_") else None)
