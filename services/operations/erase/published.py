"""What roles are shown of a table, made anew once it was purged."""

import time

from pyarrow.fs import S3FileSystem
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from pipelines.lake.properties import PURGED
from services.operations.erase import files
from services.operations.erase.copy import Copy
from services.stack.position import Deadline
from services.stack.progress import OnProgress, Progress
from services.stack.published_datasets import full_name

POLL_SECONDS = 1.0


def made_anew(dataset: Table, purged: str | None, store: S3FileSystem, timeout: float, on_progress: OnProgress) -> Copy:
    """Wait until the publisher has made a dataset of its table as it is since it was purged.

    ``purged``: when that was; None: it never was. Nothing is left of what the dataset was before.
    """
    if purged is None:
        return Copy(full_name(dataset), "datasets", 0, True)
    deadline = Deadline(timeout)
    while True:
        made = dataset.properties.get(PURGED) == purged and len(dataset.snapshots()) == 1
        # Files are deleted after the commit that gives their snapshots up.
        left = {file.path for file in files.below(store, dataset, "data")} - files.known(dataset)
        if made and not left:
            return Copy(full_name(dataset), "datasets", 1, True)
        if not deadline.left:
            why = f"{len(left)} files are left of what it was" if made else "the publisher hasn't made it anew yet"
            return Copy(full_name(dataset), "datasets", 1, False, None, f"{why}: is it up? (`make status`)")
        on_progress(Progress(full_name(dataset), "waiting for the publisher"))
        time.sleep(POLL_SECONDS)
        try:
            dataset = dataset.refresh()
        except NoSuchTableError:
            return Copy(full_name(dataset), "datasets", 1, True, None, "it isn't shown any more")
