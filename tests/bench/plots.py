"""Plots as SVG: bars of each figure by system, and the merge curves."""

from collections.abc import Mapping, Sequence
from io import StringIO

import matplotlib as mpl
from matplotlib.figure import Figure as Plot

from tests.bench.results import Results
from tests.bench.summary import Figure, spread

WIDTH, ROW, HEAD = 7.5, 0.35, 0.7
# The same results make the same files, whose text is text.
BARS: dict[str, tuple[str, Figure]] = {
    "catch-up": ("catch-up of the backlog, changes/s", lambda r: r.catch_up and r.catch_up.rows_per_second),
    "cpu": ("CPU-seconds for a million changes, live", lambda r: r.live and r.live.cpu_per_million),
    "freshness": ("freshness p95, s", lambda r: r.live and r.live.p95),
    "scan": ("scan as left, of compacted", lambda r: r.live_shape and r.live_shape.scan_ratio),
}


def plots(results: Results) -> dict[str, str]:
    """Name to SVG: bars for each workload that has the figure, and the merge curves."""
    found = {}
    for workload in dict.fromkeys(run.workload for run in results.runs):
        systems = dict.fromkeys(run.system for run in results.runs if run.workload == workload)
        for name, (title, figure) in BARS.items():
            values = {s: it.middle for s in systems if (it := spread(results, workload, s, figure)) is not None}
            if values:
                found[f"{workload}-{name}"] = bars(f"{workload}: {title}", values)
    lines: dict[str, list[tuple[float, float]]] = {}
    for point in results.curve:
        lines.setdefault(f"{point.distribution}, batch {point.batch:,}", []).append((point.rows, point.seconds))
    if lines:
        found["merge"] = curves("merge of one batch, s, by rows of the table", lines)
    return found


def bars(title: str, values: Mapping[str, float]) -> str:
    """A horizontal bar for each value, from nought, with its value; the first one on top."""
    plot = Plot(figsize=(WIDTH, HEAD + ROW * len(values)), layout="constrained")
    axes = plot.add_subplot(title=title)
    drawn = axes.barh(list(values), list(values.values()))
    axes.bar_label(drawn, [f"{v:,.3g}" if v < 100 else f"{v:,.0f}" for v in values.values()], padding=4)
    axes.margins(x=0.15)
    axes.invert_yaxis()
    axes.xaxis.set_visible(False)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    return _svg(plot)


def curves(title: str, lines: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Lines over a logarithmic x axis; y begins at nought."""
    plot = Plot(figsize=(WIDTH, 4), layout="constrained")
    axes = plot.add_subplot(title=title, xscale="log")
    for name, line in lines.items():
        axes.plot(*zip(*sorted(line), strict=True), marker="o", label=name)
    axes.set_ylim(bottom=0)
    axes.legend()
    return _svg(plot)


def _svg(plot: Plot) -> str:
    text = StringIO()
    with mpl.rc_context({"svg.hashsalt": "bench", "svg.fonttype": "none"}):
        plot.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()
