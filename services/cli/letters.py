"""Which dead letters a command is about, and how they are listed."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from services.cli.output import UNUSABLE, fail
from services.operations.dead_letters.letters import OPEN, Letter, LetterFilter, position
from services.stack.console import Grid, out

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


Topic = Annotated[str | None, typer.Option(help="Only this topic.")]
Reason = Annotated[str | None, typer.Option(help="Only this reason.")]
Since = Annotated[str | None, typer.Option(help="Only since then: 15m, 2h, 1d or ISO 8601.")]
Key = Annotated[str | None, typer.Option(help="Only this key: 7, '{\"id\": 7}' or 0x and its bytes.")]
Positions = Annotated[list[str] | None, typer.Argument(metavar="TOPIC:PARTITION:OFFSET")]


def wanted(
    positions: list[str] | None, topic: str | None, reason: str | None, since: str | None, key: str | None,
    as_json: bool, states: frozenset[str] = frozenset({OPEN}),
) -> LetterFilter:  # fmt: skip
    """Return the letters that a command's arguments name; leaves with a message if they can't be read."""
    try:
        named = frozenset(parse_position([text]) for text in positions or ())
    except ValueError as error:
        fail(str(error), UNUSABLE, as_json)
    return LetterFilter(named, topic, reason, moment("--since", since, as_json), key, states)


def moment(option: str, text: str | None, as_json: bool) -> datetime | None:
    """Return when an option says (:func:`parse_since`), if it is given; leave with a message if that can't be read."""
    try:
        return parse_since(text, datetime.now(UTC)) if text else None
    except ValueError:
        fail(f"{option} {text} is neither like 15m, 2h, 1d nor ISO 8601", UNUSABLE, as_json)


def parse_since(text: str, now: datetime) -> datetime:
    """Return the moment of `15m`, `2h`, `1d` before ``now``, or of ISO 8601.

    In UTC unless it says otherwise. Raises ValueError.
    """
    if match := re.fullmatch(r"(\d+)([smhd])", text):
        return now - timedelta(seconds=int(match[1]) * _UNITS[match[2]])
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def parse_position(parts: list[str]) -> tuple[str, int, int]:
    """Return topic, partition and offset of `TOPIC PARTITION OFFSET` or `TOPIC:PARTITION:OFFSET`.

    Raises ValueError.
    """
    words = parts if len(parts) == 3 else re.split(r"[/:]", parts[0]) if len(parts) == 1 else []
    if len(words) != 3 or not words[0] or not (words[1] + words[2]).isdecimal():
        raise ValueError(f"{' '.join(parts)} isn't TOPIC:PARTITION:OFFSET")
    return words[0], int(words[1]), int(words[2])


def print_letters(rows: list[Letter], title: str) -> None:
    """Print a line a letter, for people."""
    grid = Grid("position", "stage", "reason", "state", "dead-lettered", "message", title=title)
    for row in rows:
        where = ":".join(map(str, position(row)))
        at = f"{row['dead_lettered_at']:%Y-%m-%d %H:%M:%S}"
        grid.add_row(where, row["stage"], row["reason"], row["state"], at, _first_line(row))
    out.print(grid)


def _first_line(row: Letter) -> str:
    return (row["message"] or "").splitlines()[0] if row["message"] else ""
