"""Published: the datasets of what roles are shown of a table, made anew once it was purged."""

import time

from pyarrow.fs import S3FileSystem
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from pipelines.maintenance.plan import PURGED
from pipelines.publish.dataset import OF
from services.erase import files
from services.erase.copy import Copy
from services.verify.lake import PinnedTable
from services.verify.position import Deadline
from services.verify.progress import OnProgress, Progress

POLL_SECONDS = 1.0


def name(dataset: Table) -> str:
    """``lake.<namespace>.<name>``."""
    return ".".join(("lake", *dataset.name()[-2:]))


def datasets(catalog: Catalog, pinned: PinnedTable) -> list[Table]:
    """What roles are shown of a table."""
    found = []
    for namespace in catalog.list_namespaces():
        if namespace[0].endswith(f"_{pinned.namespace}"):
            for identifier in catalog.list_tables(namespace):
                table = catalog.load_table(identifier)
                if table.properties.get(OF) == f"{pinned.namespace}.{pinned.name}":
                    found.append(table)
    return found


def made_anew(dataset: Table, purged: str | None, store: S3FileSystem, timeout: float, on_progress: OnProgress) -> Copy:
    """Wait until the publisher has made a dataset of its table as it is since it was ``purged`` (None: it never was),
    and has left nothing of what the dataset was before.
    """
    if purged is None:
        return Copy(name(dataset), "datasets", 0, True)
    deadline = Deadline(timeout)
    while True:
        made = dataset.properties.get(PURGED) == purged and len(dataset.snapshots()) == 1
        # Files are deleted after the commit that gives their snapshots up.
        left = {file.path for file in files.below(store, dataset, "data")} - files.known(dataset)
        if made and not left:
            return Copy(name(dataset), "datasets", 1, True)
        if not deadline.left:
            why = f"{len(left)} files are left of what it was" if made else "the publisher hasn't made it anew yet"
            return Copy(name(dataset), "datasets", 1, False, None, f"{why}: is it up? (`make status`)")
        on_progress(Progress(name(dataset), "waiting for the publisher"))
        time.sleep(POLL_SECONDS)
        try:
            dataset = dataset.refresh()
        except NoSuchTableError:
            return Copy(name(dataset), "datasets", 1, True, None, "it isn't shown any more")
