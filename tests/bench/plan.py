"""How much is written, for how long, how often: the sizes of the benchmark."""

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Load:
    """What one workload writes. ``rows`` are loaded, then changed ``changes`` times: the backlog.

    Then, unless ``live_rate`` is 0, so many row changes a second for ``warm_up_seconds``, which have no figures, and
    for ``live_seconds``; and, with ``restart_seconds``, once more for as long, in which the system is killed.
    """

    rows: int
    changes: int
    live_rate: float = 0
    warm_up_seconds: float = 0
    live_seconds: float = 0
    restart_seconds: float = 0


@dataclass(frozen=True)
class Plan:
    """``patience``: seconds that a system may take for anything. ``curve_rows``: table sizes of the merge curves.
    ``usual``: the workloads that are run where none is named; (): all.
    """

    name: str
    loads: dict[str, Load]
    runs: int
    patience: float
    curve_rows: tuple[int, ...] = ()
    curve_batches: tuple[int, ...] = field(default=(100, 1_000, 10_000, 100_000))
    usual: tuple[str, ...] = ()

    def narrowed(self, workloads: list[str], runs: int | None) -> "Plan":
        """Only these workloads, or the usual ones if none is named; another number of runs."""
        wanted = workloads or self.usual or self.loads
        loads = {name: load for name, load in self.loads.items() if name in wanted}
        return replace(self, loads=loads, runs=runs or self.runs)


# Quick: the whole course for one workload, and for the shop's mix whether a system is exact at all, and how fast.
QUICK = Plan(
    "quick",
    {
        "hot-tail": Load(150_000, 150_000, live_rate=1_000, live_seconds=40, restart_seconds=40),
        "shop": Load(100_000, 20_000),
        "zipf": Load(100_000, 100_000),
        "uniform": Load(100_000, 100_000),
        "several": Load(150_000, 150_000, live_rate=1_000, live_seconds=40),
        "lineitem": Load(200_000, 100_000),
        "events": Load(300_000, 0),
    },
    runs=1, patience=420, usual=("hot-tail", "shop"),
)  # fmt: skip
# Without being asked for others.
QUICK_SYSTEMS = ["lakehouse", "lakehouse-2s", "append", "flink", "connect-sink", "tutorial"]
LIVE = {"live_rate": 2_500, "warm_up_seconds": 45, "live_seconds": 60}
FULL = Plan(
    "full",
    {
        "shop": Load(2_000_000, 300_000, **LIVE, restart_seconds=60),
        "hot-tail": Load(1_000_000, 4_000_000, **LIVE, restart_seconds=60),
        "uniform": Load(1_000_000, 4_000_000, **LIVE, restart_seconds=60),
        "zipf": Load(1_000_000, 4_000_000, **LIVE, restart_seconds=60),
        "several": Load(3_000_000, 1_000_000, **LIVE, restart_seconds=60),
        "lineitem": Load(6_000_000, 600_000, live_rate=1_000, warm_up_seconds=45, live_seconds=60),
        "events": Load(5_000_000, 0, **LIVE),
    },
    runs=3, patience=7_200, curve_rows=(1_000_000, 10_000_000, 50_000_000),
)  # fmt: skip
# One workload of the full one, once: for a change that is to make a backlog cheaper. An hour with every system.
BACKLOG = replace(FULL, name="backlog", runs=1, usual=("hot-tail",))
# To see that everything works; its figures mean nothing.
TINY = Plan(
    "tiny",
    dict.fromkeys(
        FULL.loads, Load(2_000, 1_000, live_rate=100, warm_up_seconds=5, live_seconds=10, restart_seconds=20)
    ),
    runs=1, patience=240, curve_rows=(2_000, 8_000), curve_batches=(100,),
)  # fmt: skip
PLANS = {plan.name: plan for plan in (QUICK, FULL, BACKLOG, TINY)}
