"""Plots as SVG, drawn here: bars and lines are all that is needed."""

import math
from collections.abc import Mapping, Sequence
from html import escape

from tests.bench.results import Results
from tests.bench.summary import Figure, spread

WIDTH, ROW, LEFT, RIGHT, TOP = 720, 26, 130, 110, 40
COLORS = ("#3b6ea5", "#c0722f", "#4f8f5b", "#8a5a9e", "#a33b3b", "#6b6b6b")
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
    """A horizontal bar for each value, from nought."""
    longest = max(values.values()) or 1
    parts = []
    for i, (name, value) in enumerate(values.items()):
        y, length = TOP + i * ROW, (WIDTH - LEFT - RIGHT) * value / longest
        parts += [
            _text(LEFT - 8, y + 15, name, "end"),
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{ROW - 6}" fill="{COLORS[i % len(COLORS)]}"/>',
            _text(LEFT + length + 6, y + 15, f"{value:,.3g}" if value < 100 else f"{value:,.0f}"),
        ]
    return _svg(title, TOP + len(values) * ROW + 10, parts)


def curves(title: str, lines: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Lines over a logarithmic x axis; y begins at nought."""
    height, bottom = 360, 310
    points = [point for line in lines.values() for point in line]
    low, high = math.log10(min(x for x, _ in points)), math.log10(max(x for x, _ in points))
    top = max(y for _, y in points) or 1

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - low) / ((high - low) or 1)
        return 60 + (WIDTH - 300) * across, bottom - (bottom - TOP) * y / top

    parts = [f'<path d="M60 {TOP} V{bottom} H{WIDTH - 230}" fill="none" stroke="#888"/>']
    parts += [_text(place(x, 0)[0], bottom + 18, f"{x:,.0f}", "middle") for x in sorted({x for x, _ in points})]
    parts += [_text(54, place(10**low, y)[1] + 4, f"{y:.2g}", "end") for y in (0, top / 2, top)]
    for i, (name, line) in enumerate(lines.items()):
        color = COLORS[i % len(COLORS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in sorted(line)))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts.append(f'<text x="{WIDTH - 215}" y="{TOP + 18 * i + 12}" fill="{color}">{escape(name)}</text>')
    return _svg(title, height, parts)


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" font-family="sans-serif"'
    body = "\n".join([_text(10, 22, title), *parts])
    return f'{head} font-size="13">\n<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
