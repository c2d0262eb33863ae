"""Letters: the dead letters about a row, in the table, in its older files, and in the topic."""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
from pyiceberg.expressions import And, EqualTo, Or
from pyiceberg.table import Table

from pipelines.dead_letters.store import DEAD_LETTER_TOPIC, HEADER_PREFIX
from pipelines.protection.crypto import ProtectionKeys
from services.operations.dead_letters.letters import POSITION, Letter, Position, position, unsealed
from services.operations.erase.files import Stored
from services.operations.erase.subject import Subject
from services.stack.lake_files import only
from services.stack.records import Decoder, read_range

COLUMNS = ("topic", "partition", "offset", "key", "value", "headers")


@dataclass(frozen=True)
class Sorted:
    """Letters of a table's topic, by position: ``about`` the row, or ``unreadable``: nobody can tell."""

    about: frozenset[Position]
    unreadable: frozenset[Position]


class Sorting:
    """Tells which letters are about a row. ``doubtful``: those too of which nobody can tell."""

    def __init__(self, subject: Subject, decoder: Decoder, keys: ProtectionKeys | None, doubtful: bool = False) -> None:
        self._subject, self._decoder, self._keys, self._doubtful = subject, decoder, keys, doubtful

    def sort(self, letters: Iterable[Letter]) -> Sorted:
        """Sort letters that have key, value and headers."""
        about: set[Position] = set()
        unreadable: set[Position] = set()
        for letter in letters:
            if letter["topic"] != self._subject.table.topic:
                continue
            told = self._told(letter)
            if told or (told is None and self._doubtful):
                about.add(position(letter))
            elif told is None:
                unreadable.add(position(letter))
        return Sorted(frozenset(about), frozenset(unreadable))

    def _told(self, sealed: Letter) -> bool | None:
        letter = unsealed(sealed, self._keys)
        if letter["sealed"]:
            return None
        headers = [(header["key"], header["value"]) for header in letter["headers"] or []]
        return self._subject.in_event(self._decoder, letter["key"], letter["value"], headers)


def kept(connection: duckdb.DuckDBPyConnection, files: Iterable[Stored], topic: str) -> list[Letter]:
    """Return the letters of a topic in any of these data files of the table of dead letters, deleted ones included."""
    paths = ", ".join(only(file.path) for file in files if file.path.endswith(".parquet") and not _deletes(file.path))
    if not paths:
        return []
    columns = ", ".join(f'"{name}"' for name in COLUMNS)
    rows = connection.execute(
        f"SELECT DISTINCT {columns} FROM read_parquet([{paths}], union_by_name = true) WHERE topic = ?", [topic]
    ).fetchall()
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def current(table: Table, topic: str) -> list[Letter]:
    """Return the letters of a topic in the table as it is now."""
    found: list[Letter] = table.scan(EqualTo(term="topic", value=topic), selected_fields=COLUMNS).to_arrow().to_pylist()
    return found


def named(positions: Iterable[Position]) -> list[Letter]:
    """Return letters of which no more than their positions is told."""
    return [dict(zip(POSITION, at, strict=True)) for at in sorted(positions)]


def remove(table: Table, positions: Iterable[Position]) -> None:
    """Take these letters out of the table, in one commit. Older snapshots have them. There is one at least."""
    each = [
        And(EqualTo(term="topic", value=t), And(EqualTo(term="partition", value=p), EqualTo(term="offset", value=o)))
        for t, p, o in sorted(positions)
    ]
    # It says that it writes files anew instead of marking rows as deleted, which is what is wanted here.
    warnings.filterwarnings("ignore", message="Merge on read is not yet supported")
    table.delete(each[0] if len(each) == 1 else Or(*each))


def in_topic(bootstrap: str, ranges: dict[int, tuple[int, int]]) -> Iterator[tuple[int, int, Letter]]:
    """Return the letters in the topic of dead letters, each with the partition and offset that it has there."""
    for message in read_range(bootstrap, DEAD_LETTER_TOPIC, ranges):
        headers: Any = message.headers() or []
        told: list[tuple[str, Any]] = list(headers)
        # What said where a letter is from was added last; a letter's own headers may have such names, too.
        where = {name.removeprefix(HEADER_PREFIX): value for name, value in told if name.startswith(HEADER_PREFIX)}
        yield (
            message.partition() or 0,
            message.offset() or 0,
            {
                "topic": where["topic"].decode(), "partition": int(where["partition"]), "offset": int(where["offset"]),
                "key": message.key(), "value": message.value(),
                "headers": [{"key": name, "value": value} for name, value in told],
            },
        )  # fmt: skip


def _deletes(path: str) -> bool:
    return path.endswith("-deletes.parquet")
