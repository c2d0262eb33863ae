"""Limits of few and many: the thresholds by which a batch's way of working is chosen."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Thresholds, in records, offsets, rows or keys. One object is handed to whatever chooses by them.

    ``few_records``: up to so many records, what has to be planned and started costs more than they do.
    ``cached_offsets``: up to so many, records are cached once read; beyond it they are read again from Kafka, and what
    is known of them is worth a pass of its own. ``expected_offsets``: beyond so many, a batch is expected to hold what
    the one before it held. ``listed_keys``: more keys cost the planner more than the files without them would cost the
    merge. ``near_rows``: so many rows of the table may lie between the least and the greatest new key.
    ``rows_per_key``: a table with fewer rows than so many times the changed keys is read whole. ``few_removals``: up to
    so many, the rows that a table without a key loses are sent to where it is read. ``filter_buckets``: the most that a
    key filter has. ``direct_changes``: up to so many are written without Spark. ``plain_offsets``: up to so many
    are brought by a plan that was made before. ``remembered_rows``: of so many rows of
    all tables it is remembered where they are.
    """

    few_records: int = 50_000
    cached_offsets: int = 100_000
    expected_offsets: int = 1_000
    listed_keys: int = 200
    near_rows: int = 50_000
    rows_per_key: int = 2
    few_removals: int = 5_000
    filter_buckets: int = 1 << 20
    direct_changes: int = 20_000
    plain_offsets: int = 10_000
    remembered_rows: int = 3_000_000

    def is_few(self, records: int) -> bool:
        """Return whether planning and starting cost more than so many records do."""
        return records <= self.few_records

    def is_many(self, offsets: int) -> bool:
        """Return whether so many are read again from Kafka rather than cached."""
        return offsets > self.cached_offsets
