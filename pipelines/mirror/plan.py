"""Decide what a batch does with each table, by one pure function of what is known of the table."""

from dataclasses import dataclass
from enum import Enum


class Step(Enum):
    """The step that a batch takes with a table."""

    BUSY = "it is under way beside the batches"
    HELD = "it is held, and not tried again yet"
    IDLE = "nothing has come for it"
    WAIT = "something has come, and it can do without until a later batch"
    READ = "what has come is read, and mirrored if there are records"
    MIRROR = "it is mirrored, whatever has come"

    @property
    def reads(self) -> bool:
        """Whether the table's records are read."""
        return self in (Step.READ, Step.MIRROR)


@dataclass(frozen=True)
class TableState:
    """The state of a table when a batch begins.

    ``known``: this process has mirrored it before. ``busy``: it is under way beside the batches. ``held``: it can't go
    on; ``due``: and it is time to try again. ``news``: its schema has changed, or somebody has decided about its dead
    letters. ``awaits``: a resync has something left to do. ``left_out``: an earlier batch had something for it and left
    it out. ``has_offsets``: the batch has offsets of its topic. ``can_wait``: it is fresh enough to be left out of this
    batch, and nobody waits for it.
    """

    known: bool = True
    busy: bool = False
    held: bool = False
    due: bool = False
    news: bool = False
    awaits: bool = False
    left_out: bool = False
    has_offsets: bool = False
    can_wait: bool = False


def step(state: TableState) -> Step:
    """Decide what a batch does with a table."""
    if state.busy:
        return Step.BUSY
    is_due = state.due if state.held else state.awaits or not state.known
    if is_due or state.news:
        return Step.MIRROR
    if state.held:
        return Step.HELD
    if not (state.left_out or state.has_offsets):
        return Step.IDLE
    if state.can_wait:
        return Step.WAIT
    return Step.MIRROR if state.left_out else Step.READ
