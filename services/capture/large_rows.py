"""Say which row it is that Kafka takes no record of, where the connector's task has failed for one."""

from pipelines.sources.base.capture import LargeRow

PAGE = "infra/runbooks/row-too-large.md"
MIB = 1024**2
# Kafka's name of the error, which Connect passes on.
_ERROR = "RecordTooLargeException"
# What is longer than this in a key is cut.
_LONG = 60


def is_too_large(error: str | None) -> bool:
    """Return whether this error of the task's says that a record is too large."""
    return error is not None and _ERROR in error


def largest_record(largest_row_mib: int) -> int:
    """Return the bytes that a record may have: see infra/largest_row.sh."""
    return (2 * largest_row_mib + 1) * MIB


def told(row: LargeRow | None, largest_row_mib: int) -> str:
    """Return the sentence about it."""
    limit = f"more than LARGEST_ROW_MIB={largest_row_mib} lets through; see {PAGE}"
    if row is None:
        return f"a record is too large: {limit}"
    key = ", ".join(f"{name} {_short(value)}" for name, value in sorted(row.key.items()))
    return f"a row of {row.table} ({key or 'without a key'}) is a record of {row.bytes / MIB:,.1f} MiB, {limit}"


def _short(value: str) -> str:
    return value if len(value) <= _LONG else f"{value[:_LONG]}…"
