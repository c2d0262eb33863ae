"""What a soak makes of its samples."""

from tests.bench.soak import Soak

WAVE = [0, 30, -20, 10, -30, 20]


def _soak(per_minute: float) -> Soak:
    memory = [(60.0 * n, 1500 + per_minute * n + WAVE[n % len(WAVE)]) for n in range(60)]
    scans, heap = [(120.0, 1.05), (240.0, 1.31)], [(300.0 * n, 150.0) for n in range(1, 7)]
    return Soak(
        10, memory=memory, heap=heap, native=heap, scans=scans, asks=3, asked=9, changes=1, rate=1, p50=5, p95=9.5
    )


def test_memory_that_only_wavers_is_flat() -> None:
    grown, noise = _soak(0).growth
    assert abs(grown) < 5
    assert 15 < noise < 30


def test_memory_that_grows_is_told() -> None:
    leaking = _soak(2)
    assert 75 < leaking.growth[0] < 85, "40 minutes of 60 count"
    assert [met for what, met in leaking.verdicts().items() if what.startswith("memory")] == [False]


def test_one_scan_that_costs_too_much_is_enough() -> None:
    verdicts = _soak(0).verdicts()
    assert [what for what, met in verdicts.items() if not met] == [
        "a scan costs at most 1.2 times a compacted one at any moment: 1.31, median 1.18"
    ]


def test_a_change_that_nobody_saw_a_difference_and_a_commit_that_was_tried_again_are_not_met() -> None:
    found = _soak(0)
    found.unseen, found.inexact, found.trouble = 1, "orders: 1 row missing", ["Retrying"]
    found.scans = [(120.0, 1.1)]
    assert list(found.verdicts().values()) == [False, False, True, True, True, True, False]


def test_without_a_scan_nothing_is_known_of_what_it_costs() -> None:
    found = _soak(0)
    found.scans = []
    assert [what for what, met in found.verdicts().items() if not met] == [
        "a scan costs at most 1.2 times a compacted one at any moment: none was timed"
    ]


def test_upkeep_that_was_asked_for_and_never_done_is_not_met() -> None:
    for asks, met in ((3, False), (0, True)):
        found = _soak(0)
        found.asks, found.asked = asks, 0
        assert [met for what, met in found.verdicts().items() if what.startswith("no commit failed")] == [met]


def test_what_lives_in_the_jvm_may_waver_after_its_warming_up_but_not_grow() -> None:
    told = "what lives in the JVM doesn't grow"
    for living, flat in (([90, 140, 160, 150, 155, 158], True), ([90, 140, 160, 170, 180, 190], False)):
        found = _soak(0)
        found.heap = [(300.0 * n, float(size)) for n, size in enumerate(living, 1)]
        verdicts = [(what, met) for what, met in found.verdicts().items() if what.startswith(told)]
        assert verdicts == [(f"{told}: {', '.join(map(str, living[2:]))} MiB", flat)]


def test_one_look_at_what_lives_in_the_jvm_shows_nothing() -> None:
    for heap in ([], [(300.0, 150.0)]):
        found = _soak(0)
        found.heap = heap
        [(what, met)] = [line for line in found.verdicts().items() if "lives in the JVM" in line[0]]
        assert (what.endswith("too short a load to tell (a look every 300 s)"), met) == (True, False)


def test_what_a_jvm_has_beside_its_heap_may_not_grow() -> None:
    found = _soak(0)
    found.native = [(300.0 * n, 400.0 + 30 * n) for n in range(1, 7)]
    assert [what for what, met in found.verdicts().items() if not met and "beside its heap" in what] == [
        "what the JVM has beside its heap doesn't grow: 490, 520, 550, 580 MiB"
    ]
