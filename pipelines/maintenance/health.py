"""The health of a table: what its metadata says of the cost to read it. Reads no data."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

MIB = 2**20
# What opening a file costs a reader, as so many bytes read: 5 to 10 ms of DuckDB's, with MinIO on the same machine.
OPEN_BYTES = 2 * MIB
FILES_BEFORE_FULL_SIZE = 8
SMALLEST_TARGET = 16 * MIB


@dataclass(frozen=True)
class Health:
    """The size of a table's current snapshot, in rows, files and bytes.

    ``records``: rows in its data files, of which ``deleted`` are deleted; ``bytes``: of all its files; ``snapshots``:
    how many are stored; ``manifests``: how many the current one has. ``partitions``: the health of each partition, in a
    table that has some.
    """

    records: int = 0
    deleted: int = 0
    data_files: int = 0
    delete_files: int = 0
    bytes: int = 0
    snapshots: int = 0
    manifests: int = 0
    partitions: "tuple[Health, ...]" = ()

    @property
    def files(self) -> int:
        """The number of data and delete files."""
        return self.data_files + self.delete_files

    @property
    def delete_share(self) -> float:
        """The share of the rows in data files that are deleted."""
        return min(1.0, self.deleted / self.records) if self.records else 0.0

    def target_bytes(self, largest: int) -> int:
        """Return the size to pack files to: ``largest``, or less in a small table.

        So little of a small table is rewritten for a change of its newest part. Of a table with partitions the largest
        one decides.
        """
        if self.partitions:
            return max(partition.target_bytes(largest) for partition in self.partitions)
        return max(SMALLEST_TARGET, min(largest, self.bytes // FILES_BEFORE_FULL_SIZE))

    def fewest_files(self, largest: int) -> int:
        """Return how many files of that size hold the rows that there are."""
        if self.partitions:
            return sum(partition.fewest_files(largest) for partition in self.partitions)
        return max(1, math.ceil(self._live_bytes / self.target_bytes(largest)))

    def scan_cost(self, largest: int) -> float:
        """Return the estimated cost of reading the table, as a multiple of what it would cost freshly rewritten."""
        return (self.bytes + OPEN_BYTES * self.files) / (self._live_bytes + OPEN_BYTES * self.fewest_files(largest))

    @property
    def _live_bytes(self) -> float:
        return self.bytes * (1 - self.delete_share)


def health(
    summary: Mapping[str, str], snapshots: int, manifests: int, partitions: Iterable[Mapping[str, int]] = ()
) -> Health:
    """Return the health of a table, from its metadata.

    ``summary``: of its current snapshot ({}: it has none). ``snapshots``, ``manifests``: how many there are.
    ``partitions``: of a table with partitions the rows of its metadata table ``partitions``.
    """
    totals = {
        "records": "records", "deleted": "position-deletes", "data_files": "data-files",
        "delete_files": "delete-files", "bytes": "files-size",
    }  # fmt: skip
    counted = {ours: int(summary.get(f"total-{name}", 0)) for ours, name in totals.items()}
    return Health(
        **counted,
        snapshots=snapshots,
        manifests=manifests,
        partitions=tuple(_part(partition) for partition in partitions),
    )


def _part(row: Mapping[str, int]) -> Health:
    return Health(
        records=row["record_count"], deleted=row["position_delete_record_count"], data_files=row["file_count"],
        delete_files=row["position_delete_file_count"], bytes=row["total_data_file_size_in_bytes"],
    )  # fmt: skip
