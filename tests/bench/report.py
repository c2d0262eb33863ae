"""The page, the JSON and the tables on screen."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rich.table import Table

from tests.bench.plots import plots
from tests.bench.results import Results, Run
from tests.bench.summary import Figure, Spread, spread
from tests.bench.systems import SYSTEMS
from tests.bench.targets import verdicts

METHOD = """\
Each system reads the same topics, written by Debezium from PostgreSQL, and runs alone; servers, source, workload and
system share the machine. It is started on a backlog, and is caught up when the last change of each partition can be
read; then it is started anew and runs under a steady load, of which all but the quick plan leave out the beginning
(`warm_up_seconds`), for every system alike; and once more under one in which it is killed with SIGKILL. What it used is
counted over its process and all that it started, of the backlog the start of its process included.

Freshness is measured by PyIceberg, which polls the tables twice a second: of each change, the time from its commit in
PostgreSQL until it and all changes before it (of the workload's tables, by log position) were read. A change that a
later one of its key had replaced by then counts with that one; deletes leave nothing to see, and count in the
comparison only. Afterwards every table is compared with its source row by row; **a run that isn't exact has no
figures**, only what differs. Of systems that keep every event, the newest event of each key is compared.

After the SIGKILL, at a quarter of that load's time, the process is started again at once; counted is the time until
what a look shows is again no older than 1.5 times the p95 from before. The next run's backlog has the live changes,
too.

A scan reads every column of the table as it was left, against the same rows in a table of one freshly written file on
the same store (the medians of 5, in turns, after one to warm up). PyIceberg lists the files of either, and DuckDB reads
them, those that deletes apply to less these. Bytes written are those of the data and delete files of all commits; a
changed byte is one of the changed rows' as PostgreSQL stores them. Bytes read and sent are all that went between the
system and the object store from the start of its process to its end, metadata, HTTP's own and its own upkeep included;
live that is with the changes of the warming up and of the load under the kill. They go through a proxy that counts them
(Toxiproxy), for every system alike; a table's metadata file isn't among them, since the catalog writes it. Compaction
is Iceberg's own `rewrite_data_files`, run by Spark where a scan costs more than 1.2 times that of the fresh table:
after the backlog, and once more after the live loads. The start of Spark isn't counted. A system that keeps its tables
itself, which of these only this mirror does, first has the time to do what it would: until it has committed nothing for
20 seconds. That is its own upkeep, counted from when all was visible to its last commit; what it does before is part of
what its process uses. Of its backlog a scan is measured twice then: of the snapshots that it had when all was visible
("arrived"), and as left. "With maintenance" is the CPU of the live load, and that of the upkeep and the compaction
after it, shared by all changes of both loads, what was left out included: the least that keeps scans cheap.
"""
BACKLOG: list[tuple[str, str, Figure]] = [
    ("changes/s", "{:,.0f}", lambda r: r.catch_up and r.catch_up.rows_per_second),
    ("seconds", "{:,.1f}", lambda r: r.catch_up and r.catch_up.seconds),
    ("first visible s", "{:,.1f}", lambda r: r.catch_up and r.catch_up.first_visible_seconds),
    ("CPU-s", "{:,.0f}", lambda r: r.catch_up and r.catch_up.cpu_seconds),
    ("CPU-s / million", "{:,.0f}", lambda r: r.catch_up and r.catch_up.cpu_per_million),
    ("peak MiB", "{:,.0f}", lambda r: r.catch_up and r.catch_up.peak_mib),
    ("scan left / compacted s", "{:.2f}", lambda r: r.backlog_shape and r.backlog_shape.scan_seconds),
    ("x", "{:.2f}", lambda r: r.backlog_shape and r.backlog_shape.scan_ratio),
    ("arrived x", "{:.2f}", lambda r: r.arrived_shape and r.arrived_shape.scan_ratio),
    ("own upkeep s", "{:,.1f}", lambda r: r.upkeep and r.upkeep.seconds),
    ("own upkeep CPU-s", "{:,.0f}", lambda r: r.upkeep and r.upkeep.cpu_seconds),
    ("compaction s", "{:,.1f}", lambda r: r.compaction and r.compaction.seconds),
    ("compaction CPU-s", "{:,.0f}", lambda r: r.compaction and r.compaction.cpu_seconds),
    ("data files", "{:,.0f}", lambda r: r.backlog_shape and r.backlog_shape.data_files),
    ("delete files", "{:,.0f}", lambda r: r.backlog_shape and r.backlog_shape.delete_files),
    ("bytes written / changed", "{:.2f}", lambda r: r.backlog_amplification and r.backlog_amplification.ratio),
    ("bytes read / changed", "{:.2f}", lambda r: r.backlog_traffic and r.backlog_traffic.read_ratio),
    ("bytes sent / changed", "{:.2f}", lambda r: r.backlog_traffic and r.backlog_traffic.sent_ratio),
]
LIVE: list[tuple[str, str, Figure]] = [
    ("changes/s", "{:,.0f}", lambda r: r.live and r.live.rate),
    ("p50 s", "{:.1f}", lambda r: r.live and r.live.p50),
    ("p95 s", "{:.1f}", lambda r: r.live and r.live.p95),
    ("max s", "{:.1f}", lambda r: r.live and r.live.max),
    ("CPU-s / minute", "{:,.0f}", lambda r: r.live and r.live.cpu_seconds_per_minute),
    ("CPU-s / million", "{:,.0f}", lambda r: r.live and r.live.cpu_per_million),
    ("own upkeep CPU-s", "{:,.0f}", lambda r: r.live_upkeep and r.live_upkeep.cpu_seconds),
    ("with maintenance", "{:,.0f}", lambda r: r.live_cpu_per_million),
    ("peak MiB", "{:,.0f}", lambda r: r.live and r.live.peak_mib),
    ("kill -9 to fresh s", "{:.1f}", lambda r: r.restart and r.restart.seconds),
    ("scan left s", "{:.2f}", lambda r: r.live_shape and r.live_shape.scan_seconds),
    ("x", "{:.2f}", lambda r: r.live_shape and r.live_shape.scan_ratio),
    ("data files", "{:,.0f}", lambda r: r.live_shape and r.live_shape.data_files),
    ("delete files", "{:,.0f}", lambda r: r.live_shape and r.live_shape.delete_files),
    ("deletes", "{:,.0f}", lambda r: r.live_shape and r.live_shape.deletes),
    ("snapshots", "{:,.0f}", lambda r: r.live_shape and r.live_shape.snapshots),
    ("bytes written / changed", "{:.2f}", lambda r: r.live_amplification and r.live_amplification.ratio),
    ("of them compacted", "{:.2f}", lambda r: r.live_amplification and r.live_amplification.rewritten_ratio),
    ("bytes read / changed", "{:.2f}", lambda r: r.live_traffic and r.live_traffic.read_ratio),
    ("bytes sent / changed", "{:.2f}", lambda r: r.live_traffic and r.live_traffic.sent_ratio),
]
SECTIONS = (("Backlog", BACKLOG), ("Live", LIVE))
# What this mirror costs by the freshness that it is asked for.
DIAL: list[tuple[str, str, Figure]] = [
    ("asked s", "{:g}", lambda r: r.live and SYSTEMS[r.system].freshness),
    *(column for column in LIVE if column[0] in ("p50 s", "p95 s", "CPU-s / minute", "CPU-s / million")),
    ("MiB written / million", "{:,.0f}",
     lambda r: r.live and r.live_amplification and r.live_amplification.written_bytes / 2**20 / r.live.changes * 1e6),
    ("files left", "{:,.0f}", lambda r: r.live_shape and r.live_shape.data_files + r.live_shape.delete_files),
]  # fmt: skip


def page(results: Results, folder: Path) -> None:
    """Write README.md, results.json and the plots into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(results.model_dump_json(indent=1), encoding="utf-8")
    drawn = plots(results)
    for name, svg in drawn.items():
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    (folder / "README.md").write_text(markdown(results, list(drawn)), encoding="utf-8")


def markdown(results: Results, drawn: Iterable[str] = ()) -> str:
    """The page."""
    parts = ["# Benchmark", _where(results), "## Targets", _verdicts(results)]
    for workload in _workloads(results):
        parts += [f"## {workload}", *_tables(results, workload), *_dial(results, workload)]
        parts += [_without_figures(results, workload)]
    parts += [f"![{name}]({name}.svg)" for name in drawn]
    if results.curve:
        rows = [
            (p.distribution, f"{p.rows:,}", f"{p.batch:,}", f"{p.seconds:.2f}", str(p.tries)) for p in results.curve
        ]
        parts += ["## Merge time", _grid(("changes", "rows of the table", "changes a batch", "seconds", "tries"), rows)]
    parts += ["## Method", METHOD, "## Systems", _systems(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def console_table(results: Results) -> Iterator[Table]:
    """The same tables for a terminal: a line for each figure, since there are more of them than systems."""
    for workload in _workloads(results):
        for title, figures in SECTIONS:
            names, lines = _filled(results, workload, figures)
            if lines:
                table = Table(f"{workload}: {title.lower()}")
                for line in lines:
                    table.add_column(line[0], justify="right")
                for figure in zip(names[1:], *(line[1:] for line in lines), strict=True):
                    table.add_row(*figure)
                yield table


def _workloads(results: Results) -> list[str]:
    return list(dict.fromkeys(run.workload for run in results.runs))


def _where(results: Results) -> str:
    it = results.machine
    versions = ", ".join(f"{name} {version}" for name, version in sorted(results.versions.items()))
    return (
        f"Plan `{results.plan}`, seed {results.seed}, {results.began}, {results.minutes:.0f} minutes, commit"
        f" {results.commit}. {it.cores} cores ({it.processor}), {it.memory_gib:g} GiB, Linux {it.kernel}, {it.java};"
        f" load before it began: {it.load_before:g}. {versions}."
    )


def _verdicts(results: Results) -> str:
    words = {True: "met", False: "**not met**", None: "not measured"}
    rows = [(v.what, v.target, v.found, words[v.met]) for v in verdicts(results)]
    return _grid(("measure", "target", "here", ""), rows)


def _tables(results: Results, workload: str) -> Iterator[str]:
    for title, figures in SECTIONS:
        names, lines = _filled(results, workload, figures)
        if lines:
            yield f"### {title}"
            yield _grid(names, lines)


def _dial(results: Results, workload: str) -> Iterator[str]:
    names, lines = _filled(results, workload, DIAL, lambda system: SYSTEMS[system].freshness is not None)
    if len(lines) > 1:
        yield "### Freshness against cost"
        yield _grid(names, lines)


def _filled(
    results: Results, workload: str, figures: list[tuple[str, str, Figure]],
    which: Callable[[str], bool] = lambda _system: True,
) -> tuple[list[str], list[list[str]]]:  # fmt: skip
    """Header and rows; columns and systems without a figure are left out."""
    systems = dict.fromkeys(run.system for run in results.runs if run.workload == workload and which(run.system))
    cells = {
        system: [_cell(spread(results, workload, system, figure), form) for _, form, figure in figures]
        for system in systems
    }
    lines = {system: found for system, found in cells.items() if any(found)}
    used = [i for i in range(len(figures)) if any(found[i] for found in lines.values())]
    header = ["system", *(figures[i][0] for i in used)]
    return header, [[_named(system), *(found[i] or "-" for i in used)] for system, found in lines.items()]


def _named(system: str) -> str:
    """With a mark for those that are shown beside."""
    return f"{system} (deletes left out)" if SYSTEMS[system].beside else system


def _cell(found: Spread | None, form: str) -> str:
    if found is None:
        return ""
    if found.runs == 1:
        return form.format(found.middle)
    return f"{form.format(found.middle)} ({form.format(found.least)}-{form.format(found.most)})"


def _without_figures(results: Results, workload: str) -> str:
    def line(run: Run) -> str:
        return f"- **{run.system}**, run {run.number}: {run.status}. {' '.join(run.why.split())[:600]}"

    return "\n".join(line(run) for run in results.runs if run.workload == workload and run.status != "exact")


def _systems(results: Results) -> str:
    names = dict.fromkeys(run.system for run in results.runs)
    rows = [(_named(name), SYSTEMS[name].title, SYSTEMS[name].guarantees, SYSTEMS[name].settings) for name in names]
    return _grid(("", "what it is", "what it guarantees", "settings"), rows)


def _grid(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(header)
    lines = [names, ["---"] * len(names), *(list(row) for row in rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
