"""Due: which datasets aren't what their contracts and tables say, by what the catalog tells. Needs no Spark."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table

from pipelines.lake.properties import PUBLISHED_SNAPSHOT, PURGED
from pipelines.publish.shown import Shown

ROOMS = (Path(__file__).parent, Path(__file__).parents[1] / "protection")


@dataclass(frozen=True)
class Look:
    """A dataset at one moment.

    ``definition``: another one whenever rows that are there may have to look otherwise; ``snapshot``: its table's;
    ``reached``: of which one the dataset is; None: of none.
    """

    definition: str
    snapshot: int
    reached: int | None


@dataclass
class Due:
    """What is due among datasets.

    ``fingerprint``: of the key; ``file``: where it is noted by which definition each was brought up to date, for the
    next process; ``again_seconds``: after which what failed is tried again, unless it has changed by then.
    """

    fingerprint: str | None
    file: Path
    again_seconds: float
    clock: Callable[[], float] = time.monotonic
    _failed: dict[str, tuple[str, int, float]] = field(default_factory=dict)

    def looks(self, catalog: Catalog, every: Iterable[Shown]) -> dict[str, Look]:
        """Return the datasets that are due, by name. Raises what PyIceberg and requests raise."""
        done = self._done()
        found = {}
        for shown in every:
            name, look = ".".join(shown.name), look_at(catalog, shown, self.fingerprint)
            if look is None or (look.reached == look.snapshot and done.get(name) == look.definition):
                continue
            definition, snapshot, again = self._failed.get(name, ("", 0, 0.0))
            if (look.definition, look.snapshot) != (definition, snapshot) or self.clock() >= again:
                found[name] = look
        return found

    def succeeded(self, looks: Mapping[str, Look]) -> None:
        """Note that these datasets were brought up to date since they were looked at."""
        self._failed.clear()
        fresh = self.file.with_name(f".{self.file.name}.new")
        fresh.write_text(json.dumps({**self._done(), **{name: look.definition for name, look in looks.items()}}))
        fresh.replace(self.file)

    def failed(self, looks: Mapping[str, Look]) -> None:
        """Note that these datasets couldn't be brought up to date, all or some of them."""
        again = self.clock() + self.again_seconds
        self._failed = {name: (look.definition, look.snapshot, again) for name, look in looks.items()}

    def _done(self) -> dict[str, str]:
        try:
            return dict(json.loads(self.file.read_text()))
        except (OSError, ValueError):
            return {}


def look_at(catalog: Catalog, shown: Shown, fingerprint: str | None) -> Look | None:
    """Return how a dataset is; None: the lake hasn't got its table yet, or that has no rows."""
    table = _table(catalog, shown.table)
    if table is None or (snapshot := table.metadata.current_snapshot_id) is None:
        return None
    metadata = table.metadata
    said = [
        str(metadata.table_uuid), metadata.current_schema_id, metadata.properties.get(PURGED), fingerprint,
        list(shown.audience.columns.items()), shown.audience.rows, _code(),
    ]  # fmt: skip
    definition = hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]
    dataset = _table(catalog, shown.name)
    return Look(definition, snapshot, None if dataset is None else reached(dataset))


def reached(dataset: Table) -> int | None:
    """Return of which snapshot of its table a dataset is."""
    snapshot = dataset.current_snapshot()
    while snapshot is not None:
        said = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        if PUBLISHED_SNAPSHOT in said:
            return int(said[PUBLISHED_SNAPSHOT])
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else dataset.snapshot_by_id(parent)
    return None


def _table(catalog: Catalog, name: tuple[str, str]) -> Table | None:
    try:
        return catalog.load_table(name)
    except (NoSuchTableError, NoSuchNamespaceError):
        return None


def _code() -> str:
    """Return the digest of what makes rows of datasets: another version of it may make others."""
    digest = hashlib.sha256()
    for path in sorted(path for room in ROOMS for path in room.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
