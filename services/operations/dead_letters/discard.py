"""Give dead letters up."""

from pipelines.dead_letters.actions import DISCARDED
from services.operations.dead_letters.letters import Letter, LetterFilter, Letters
from services.operations.dead_letters.replay import close_interrupted
from services.stack.records import Decoder


def discard(letters: Letters, wanted: LetterFilter, decoder: Decoder, bootstrap: str, because: str) -> list[Letter]:
    """Close the dead letters that match, with a reason that is kept, and return them.

    What an interrupted replay has put back already is closed as replayed first, so it isn't given up.
    """
    close_interrupted(letters, bootstrap)
    found = letters.find(wanted, decoder)
    if found:
        letters.close(found, DISCARDED, because)
    return found
