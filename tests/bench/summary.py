"""Of several runs one figure: medians with their spread, and ratios, which are taken within a run. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from tests.bench.results import Results, Run

# None, where the run hasn't got it.
Figure = Callable[[Run], Any]


@dataclass(frozen=True)
class Spread:
    """The median, and the smallest and greatest value of ``runs`` runs."""

    middle: float
    least: float
    most: float
    runs: int


def spread(results: Results, workload: str, system: str, figure: Figure) -> Spread | None:
    """Over the exact runs that have the figure; None if there are none."""
    values = [
        value
        for run in results.runs
        if (run.system, run.workload, run.status) == (system, workload, "exact") and (value := figure(run)) is not None
    ]
    return Spread(median(values), min(values), max(values), len(values)) if values else None


def middle(results: Results, workload: str, system: str, figure: Figure) -> float | None:
    """The median alone."""
    found = spread(results, workload, system, figure)
    return found.middle if found else None


def ratios(results: Results, workload: str, system: str, other: str, figure: Figure) -> float | None:
    """The median over the runs of one system's figure by the other's in the same run."""
    values: dict[tuple[int, str], float] = {}
    for run in results.runs:
        if run.workload == workload and run.status == "exact" and (value := figure(run)):
            values[run.number, run.system] = value
    numbers = {number for number, _ in values}
    within = [
        values[number, system] / values[number, other]
        for number in numbers
        if (number, system) in values and (number, other) in values
    ]
    return median(within) if within else None
