"""The files that a table needs, of all its snapshots, by its metadata."""

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table


def needed(table: Table) -> set[str]:
    """Return the locations of all files that a table's snapshots and statistics need, and of its metadata.

    Reads every manifest once. Raises FileNotFoundError where one is gone: the table has moved on meanwhile.
    """
    metadata = table.metadata
    found = {table.metadata_location}
    found |= {statistics.statistics_path for statistics in metadata.statistics}
    found |= {statistics.statistics_path for statistics in metadata.partition_statistics}
    manifests: dict[str, ManifestFile] = {}
    for snapshot in metadata.snapshots:
        found.add(snapshot.manifest_list)
        manifests |= {manifest.manifest_path: manifest for manifest in snapshot.manifests(table.io)}
    for path, manifest in manifests.items():
        found.add(path)
        found |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)}
    return found


def refreshed(table: Table) -> Table | None:
    """Return the table as it is now, or None if it was dropped."""
    try:
        return table.refresh()
    except NoSuchTableError:
        return None
