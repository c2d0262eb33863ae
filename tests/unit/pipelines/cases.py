"""Labelled cases of what a table holds after batches, which share a table, so that each costs a part of a batch."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from tests.unit.pipelines.harness import Topic

IMAGES = ("before", "after")
KEYS = 10


@dataclass(frozen=True)
class Case:
    """Ids are below ten; ``dead``: why its dead letters are that."""

    label: str
    batches: list[list[tuple[Any, ...]]]
    rows: list[tuple[Any, ...]]
    dead: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Found:
    """What became of a case."""

    rows: list[tuple[Any, ...]]
    dead: list[str]


def alone(topic: Topic, case: Case) -> Found:
    """What a case makes of a table of its own, and that a replay of everything changes nothing."""
    mirror = topic.mirror()
    for number, batch in enumerate([topic.batch(events) for events in case.batches]):
        topic.apply(mirror, batch, number)
    found = Found(topic.rows(), topic.letters.reasons)
    _replayed(topic)
    return found


def together(topic: Topic, cases: Sequence[Case]) -> list[Found]:
    """What each case makes of a table of all of them; its ids are those that it says. And that a replay of everything
    changes nothing.
    """
    mirror, owner = topic.mirror(), {}
    for number, batch in enumerate(zip_longest(*(case.batches for case in cases), fillvalue=())):
        mine = [(i, _own(event, i)) for i, events in enumerate(batch) for event in events]
        before = len(topic.positions)
        topic.apply(mirror, topic.batch([event for _, event in mine]), number)
        owner |= dict(zip(topic.positions[before:], (i for i, _ in mine), strict=True))
    rows, letters = topic.rows(), topic.letters.kept.items()
    _replayed(topic)
    return [
        Found(
            [(key % KEYS, *rest) for key, *rest in rows if key // KEYS == i],
            sorted(reason for position, reason in letters if owner[position] == i),
        )
        for i in range(len(cases))
    ]


def _replayed(topic: Topic) -> None:
    topic.assert_ledger_is_whole()
    rows, commits, everything = topic.rows(), len(topic.summaries()), topic.everything()
    outcome = topic.apply(topic.mirror(), everything, len(topic.batches))
    assert outcome.skipped == everything.count()
    assert (topic.rows(), len(topic.summaries())) == (rows, commits)


def _own(event: tuple[Any, ...], case: int) -> tuple[Any, ...]:
    """The same with ids that only this case has, on the same partitions."""

    def mine(number: int | None) -> int | None:
        return None if number is None else KEYS * case + number

    key, value, other, *partition = event
    if isinstance(value, dict):
        images = {image: value[image] and {**value[image], "id": mine(value[image]["id"])} for image in IMAGES}
        value = {**value, **images}
    return (mine(key), value, mine(other), *partition)
