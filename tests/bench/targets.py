"""The targets, and whether this run met them."""

from dataclasses import dataclass

from tests.bench.results import Results, Run
from tests.bench.summary import middle, ratios
from tests.bench.systems import SYSTEMS

UNTIL_READABLE = "catch-up rate until scans are cheap"
OURS, FRESH, FLOOR = "lakehouse", "lakehouse-2s", "append"


@dataclass(frozen=True)
class Verdict:
    """A target for one workload; ``met`` None: it wasn't measured."""

    what: str
    target: str
    found: str
    met: bool | None

    def __str__(self) -> str:
        word = {True: "met", False: "NOT MET", None: "not measured"}[self.met]
        return f"{word:>12}  {self.what}: {self.found} (target {self.target})"


UNMEASURED = (
    Verdict("scan as left of compacted, at any moment of 30 minutes", "≤ 1.2 x", "by `tests.bench.soak`", None),
    Verdict("driver memory in 60 minutes at full rate", "flat", "by `tests.bench.soak`", None),
)


def upserting(results: Results, workload: str) -> list[str]:
    """The peers that can be beaten: exact in every run of the workload, and keeping the current state."""
    names = dict.fromkeys(run.system for run in results.runs if run.workload == workload)
    return [
        name for name in names
        if SYSTEMS[name].freshness is None and not SYSTEMS[name].append_only and not SYSTEMS[name].beside
        and all(run.status == "exact" for run in results.runs if (run.system, run.workload) == (name, workload))
    ]  # fmt: skip


def verdicts(results: Results) -> list[Verdict]:
    """Of every workload that was measured."""
    found: list[Verdict] = []
    for workload in dict.fromkeys(run.workload for run in results.runs):
        found += _of(results, workload)
    return [*found, *_growth(results), *UNMEASURED]


def _of(results: Results, workload: str) -> list[Verdict]:
    peers = upserting(results, workload)

    def least(ratio: str, target: float) -> Verdict:
        """Against the best peer: the one with the smallest ratio."""
        by_peer = [r for peer in peers if (r := ratios(results, workload, OURS, peer, _RATIOS[ratio])) is not None]
        what = f"{workload}: {ratio}, of the best upserting peer's"
        if not by_peer:
            return Verdict(what, f"≥ {target} x", "no exact peer to compare with", None)
        return Verdict(what, f"≥ {target} x", f"{min(by_peer):.2f} x", min(by_peer) >= target)

    def most(what: str, target: float, unit: str, value: float | None) -> Verdict:
        said = "not measured" if value is None else f"{value:.2f}{unit}"
        return Verdict(f"{workload}: {what}", f"≤ {target:g}{unit}", said, None if value is None else value <= target)

    floor = ratios(results, workload, OURS, FLOOR, _RATIOS["catch-up rate"])
    cpu = [r for peer in peers if (r := ratios(results, workload, OURS, peer, _cpu)) is not None]
    live = workload_has_live(results, workload)
    return [
        least(UNTIL_READABLE, 2.0),
        least("catch-up rate", 1.2),
        Verdict(f"{workload}: catch-up rate, of plain append's", "≥ 0.6 x", "not measured" if floor is None else
                f"{floor:.2f} x", None if floor is None else floor >= 0.6),
        *([
            most(f"freshness p95 of {FRESH}", 5, " s",
                 middle(results, workload, FRESH, lambda r: r.live and r.live.p95)),
            most(f"freshness p50 of {FRESH}", 3, " s",
                 middle(results, workload, FRESH, lambda r: r.live and r.live.p50)),
            most("CPU per million live changes with maintenance, of the best upserting peer's", 1, " x",
                 max(cpu, default=None)),
            most("scan as left of compacted, after the load", 1.2, " x",
                 middle(results, workload, OURS, lambda r: r.live_shape and r.live_shape.scan_ratio)),
            most("restart to caught up", 30, " s",
                 middle(results, workload, OURS, lambda r: r.restart and r.restart.seconds)),
        ] if live else []),
        *([most("bytes written by changed byte", 5, "", middle(
            results, workload, OURS, lambda r: r.live_amplification and r.live_amplification.ratio))]
          if workload == "hot-tail" and live else []),
    ]  # fmt: skip


def workload_has_live(results: Results, workload: str) -> bool:
    """Whether any system was measured under load."""
    return any(run.live for run in results.runs if run.workload == workload)


def _until_readable(run: Run) -> float | None:
    seconds = run.readable_seconds
    return None if seconds is None or run.catch_up is None else run.catch_up.changes / seconds


def _cpu(run: Run) -> float | None:
    return run.live_cpu_per_million


_RATIOS = {
    "catch-up rate": lambda run: run.catch_up.rows_per_second if run.catch_up else None,
    UNTIL_READABLE: _until_readable,
}


def _growth(results: Results) -> list[Verdict]:
    found = []
    for distribution, target in (("hot-tail", 1.3), ("uniform", None)):
        points = [p for p in results.curve if p.distribution == distribution and p.batch == 10_000]
        if len(points) < 2:
            continue
        first, last = min(points, key=lambda p: p.rows), max(points, key=lambda p: p.rows)
        growth, size = last.seconds / first.seconds, last.rows / first.rows
        what = f"merge of 10,000 {distribution} changes, {first.rows:,} → {last.rows:,} rows"
        said, met = f"{growth:.2f} x for a table {size:.0f} x as large", growth <= (target or size / 4)
        found.append(Verdict(what, f"≤ {target} x" if target else "far slower than the table", said, met))
    return found
