"""The same seed writes the same."""

import random
from collections import Counter
from itertools import islice

import pytest

from tests.bench.workloads import WORKLOADS
from tests.bench.workloads.base import SingleTable, Step

SINGLE = {name: workload for name, workload in WORKLOADS.items() if isinstance(workload, SingleTable)}


def steps(name: str, seed: int, highest: int = 10_000, size: int = 100) -> list[Step]:
    return list(islice(SINGLE[name].steps(random.Random(seed), highest, size), 50))


@pytest.mark.parametrize("name", SINGLE)
def test_a_seed_decides_what_is_written(name: str) -> None:
    assert steps(name, 7) == steps(name, 7)


@pytest.mark.parametrize("name", ["uniform", "zipf", "hot-tail"])
def test_another_seed_writes_otherwise(name: str) -> None:
    assert steps(name, 7) != steps(name, 8)


@pytest.mark.parametrize("name", SINGLE)
def test_keys_are_inserted_once_and_changed_after_that(name: str) -> None:
    highest = 10_000
    for step in steps(name, 7):
        assert step.inserts.start == highest + 1
        assert all(1 <= key <= highest for key in (*step.updates, *step.deletes))
        assert len({*step.inserts, *step.updates, *step.deletes}) == step.changes
        highest += len(step.inserts)


def test_what_is_hot() -> None:
    def touched(name: str) -> list[int]:
        return [key for step in steps(name, 7, 1_000_000) for key in step.updates]

    tail = touched("hot-tail")
    assert sum(key > 990_000 for key in tail) > 0.9 * len(tail)
    assert sum(key > 990_000 for key in touched("uniform")) < 0.05 * len(tail)
    times = {name: Counter(touched(name)).most_common(1)[0][1] for name in ("zipf", "uniform")}
    assert times["zipf"] > 40 > 5 > times["uniform"]


def test_workloads_have_schemas_of_their_own() -> None:
    schemas = [workload.schema for workload in WORKLOADS.values()]
    assert len(set(schemas)) == len(schemas)
