"""Two pictures of a run: how fresh the lake was, with the kill marked, and how many rows each table had."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import matplotlib as mpl
from matplotlib.dates import DateFormatter, date2num
from matplotlib.figure import Figure
from pyiceberg.table import Table

SIZE = (9.0, 4.2)
Point = tuple[datetime, float]


def draw(
    folder: Path, ages: Sequence[Point], rows: Mapping[str, Sequence[Point]], killed: datetime | None
) -> list[Path]:
    """Write ``freshness.png`` and ``rows.png``; return their paths.

    ``ages``: when a change was committed in the source, and how many seconds later it was visible; ``rows``: table to
    how many rows it had at each commit.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.3}):
        fresh, sizes = _figure("Source commit to visible, seconds"), _figure("Rows in the lake")
        axes = fresh.axes[0]
        if ages:
            axes.plot(*zip(*sorted(ages), strict=True), ".", markersize=3, alpha=0.5)
        if killed is not None:
            at = float(date2num(killed))  # type: ignore[no-untyped-call]
            axes.axvline(at, color="tab:red", linestyle="--", label="the mirror was killed")
            axes.legend(frameon=False)
        axes.set_ylim(bottom=0)
        axes = sizes.axes[0]
        for name, points in sorted(rows.items(), key=lambda each: -max((size for _, size in each[1]), default=0)):
            if points:
                axes.step(*zip(*sorted(points), strict=True), where="post", label=name)
        axes.set_yscale("symlog")
        if rows:
            axes.legend(frameon=False, ncols=3, fontsize="small")
        paths = [folder / "freshness.png", folder / "rows.png"]
        for figure, path in zip((fresh, sizes), paths, strict=True):
            figure.axes[0].xaxis.set_major_formatter(DateFormatter("%H:%M:%S", tz=UTC))  # type: ignore[no-untyped-call]
            figure.savefig(path, dpi=130)
    return paths


def sizes_of(table: Table) -> list[Point]:
    """Return how many rows a table had at each commit that it still knows."""
    found = []
    for snapshot in table.snapshots():
        said = snapshot.summary.additional_properties if snapshot.summary else {}
        rows = int(said.get("total-records", 0)) - int(said.get("total-position-deletes", 0))
        found.append((datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC), float(rows)))
    return found


def _figure(title: str) -> Figure:
    figure = Figure(figsize=SIZE, layout="constrained")
    figure.add_subplot(title=title)
    return figure
