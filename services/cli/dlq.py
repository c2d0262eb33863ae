"""`lakehouse dlq`: records that couldn't be merged, with the reason, and what can be done with them."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer
from rich.table import Table

from pipelines.avro import Undecodable
from services.cli.output import CHECK_FAILED, UNUSABLE, expected_errors, fail, out, print_json
from services.dlq.letters import DISCARDED, LISTED, OPEN, POSITION, REPLAYED, Letter, Letters, Wanted, position
from services.dlq.replay import WHOLE, replay, with_keys
from services.verify.lake import open_catalog
from services.verify.settings import StackSettings
from services.verify.tail import Decoder

app = typer.Typer(
    help="Dead letters: records that couldn't be merged.", no_args_is_help=True, rich_markup_mode="markdown"
)
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_since(text: str, now: datetime) -> datetime:
    """A moment: `15m`, `2h`, `1d` before ``now``, or ISO 8601 (UTC unless it says otherwise). Raises ValueError."""
    if match := re.fullmatch(r"(\d+)([smhd])", text):
        return now - timedelta(seconds=int(match[1]) * _UNITS[match[2]])
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def parse_position(parts: list[str]) -> tuple[str, int, int]:
    """Topic, partition and offset from `TOPIC PARTITION OFFSET` or `TOPIC:PARTITION:OFFSET`. Raises ValueError."""
    words = parts if len(parts) == 3 else re.split(r"[/:]", parts[0]) if len(parts) == 1 else []
    if len(words) != 3 or not words[0] or not (words[1] + words[2]).isdecimal():
        raise ValueError(f"{' '.join(parts)} isn't TOPIC:PARTITION:OFFSET")
    return words[0], int(words[1]), int(words[2])


def hexdump(data: bytes, width: int = 16) -> list[str]:
    """Lines of offset, bytes in hexadecimal, and their ASCII."""
    lines = []
    for start in range(0, len(data), width):
        part = data[start : start + width]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<{width * 3 - 1}}  {text}")
    return lines


Topic = Annotated[str | None, typer.Option(help="Only this topic.")]
Reason = Annotated[str | None, typer.Option(help="Only this reason.")]
Since = Annotated[str | None, typer.Option(help="Only since then: 15m, 2h, 1d or ISO 8601.")]
Key = Annotated[str | None, typer.Option(help="Only this key: 7, '{\"id\": 7}' or 0x and its bytes.")]
Positions = Annotated[list[str] | None, typer.Argument(metavar="[TOPIC:PARTITION:OFFSET]…")]


def wanted(
    positions: list[str] | None, topic: str | None, reason: str | None, since: str | None, key: str | None,
    as_json: bool, states: frozenset[str] = frozenset({OPEN}),
) -> Wanted:  # fmt: skip
    """The letters that a command's arguments name; leaves with a message if they can't be read."""
    try:
        named = frozenset(parse_position([text]) for text in positions or ())
    except ValueError as error:
        fail(str(error), UNUSABLE, as_json)
    try:
        moment = parse_since(since, datetime.now(UTC)) if since else None
    except ValueError:
        fail(f"--since {since} is neither like 15m, 2h, 1d nor ISO 8601", UNUSABLE, as_json)
    return Wanted(named, topic, reason, moment, key, states)


LIST_HELP = """List dead letters, newest first: the open ones, or with --all also those that were replayed or discarded.

Examples:

    lakehouse dlq list --since 1h

    lakehouse dlq list --topic shop.public.orders --reason unknown_schema --json
"""


@app.command("list", help=LIST_HELP)
def list_letters(
    topic: Topic = None,
    reason: Reason = None,
    since: Since = None,
    key: Key = None,
    closed: Annotated[bool, typer.Option("--all", help="Also what was replayed or discarded.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many to list.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List dead letters."""
    states = frozenset({OPEN, REPLAYED, DISCARDED} if closed else {OPEN})
    chosen = wanted(None, topic, reason, since, key, as_json, states)
    with expected_errors(as_json):
        settings = StackSettings.load()
        rows = Letters(open_catalog(settings)).find(chosen, Decoder(settings.schema_registry_url))
    groups: dict[tuple[str, str, str], int] = {}
    for row in rows:
        row.pop("key", None)
        group = (row["topic"], row["stage"], row["reason"])
        groups[group] = groups.get(group, 0) + 1
    newest = sorted(rows, key=lambda row: row["dead_lettered_at"], reverse=True)[:limit]
    if as_json:
        counted = [{"topic": t, "stage": s, "reason": r, "count": n} for (t, s, r), n in sorted(groups.items())]
        print_json({"total": len(rows), "groups": counted, "letters": newest})
        return
    if not rows:
        out.print("No dead letters." if closed else "No open dead letters.")
        return
    print_letters(newest, f"{len(rows):,} dead letters")
    for (name, stage, why), count in sorted(groups.items()):
        out.print(f"{count:>8,}  {name}  {stage}  {why}", markup=False, highlight=False)


def print_letters(rows: list[Letter], title: str) -> None:
    """A line a letter, for people."""
    grid = Table("position", "stage", "reason", "state", "dead-lettered", "message", title=title, title_justify="left")
    for row in rows:
        where = ":".join(map(str, position(row)))
        at = f"{row['dead_lettered_at']:%Y-%m-%d %H:%M:%S}"
        grid.add_row(where, row["stage"], row["reason"], row["state"], at, _first_line(row))
    out.print(grid)


REPLAY_HELP = """Put dead letters back on their topics, once what was wrong is mended.

Later events of a key wait behind its dead letter; they are replayed with it, in their order. A letter that fails again
comes back, with its history in its headers. Examples:

    lakehouse dlq replay --reason unknown_schema --dry-run

    lakehouse dlq replay shop.public.orders:0:4711

    lakehouse dlq replay --topic shop.public.orders --key 7
"""


@app.command("replay", help=REPLAY_HELP)
def replay_letters(
    positions: Positions = None,
    topic: Topic = None,
    reason: Reason = None,
    since: Since = None,
    key: Key = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which.")] = False,
    as_json: AsJson = False,
) -> None:
    """Replay dead letters."""
    chosen = _named(positions, topic, reason, since, key, as_json)
    with expected_errors(as_json):
        settings = StackSettings.load()
        letters = Letters(open_catalog(settings))
        found = with_keys(letters, chosen, Decoder(settings.schema_registry_url))
        if not dry_run:
            replay(letters, found, settings.kafka_bootstrap)
    _done("would be replayed" if dry_run else "replayed", found, as_json, dry_run)


DISCARD_HELP = """Give dead letters up, with a reason that is kept. The lake stays without what they say.

What waits behind them waits on if another letter of its key is open. Examples:

    lakehouse dlq discard shop.public.orders:0:4711 --because "sent by a test"

    lakehouse dlq discard --reason not_avro --since 1h --because "a producer gone wrong" --dry-run
"""


@app.command("discard", help=DISCARD_HELP)
def discard_letters(
    because: Annotated[str, typer.Option(help="Why; it is kept.")],
    positions: Positions = None,
    topic: Topic = None,
    reason: Reason = None,
    since: Since = None,
    key: Key = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which.")] = False,
    as_json: AsJson = False,
) -> None:
    """Discard dead letters."""
    chosen = _named(positions, topic, reason, since, key, as_json)
    if not because.strip():
        fail("--because needs a reason", UNUSABLE, as_json)
    with expected_errors(as_json):
        settings = StackSettings.load()
        letters = Letters(open_catalog(settings))
        found = letters.find(chosen, Decoder(settings.schema_registry_url))
        if found and not dry_run:
            letters.close(found, DISCARDED, because)
    _done("would be discarded" if dry_run else "discarded", found, as_json, dry_run)


def _named(
    positions: list[str] | None, topic: str | None, reason: str | None, since: str | None, key: str | None,
    as_json: bool,
) -> Wanted:  # fmt: skip
    chosen = wanted(positions, topic, reason, since, key, as_json)
    if not chosen.names_any:
        fail("say which: positions, --topic, --reason, --since or --key (`lakehouse dlq list` shows them)", UNUSABLE,
             as_json)  # fmt: skip
    return chosen


def _done(what: str, found: list[Letter], as_json: bool, dry_run: bool) -> None:
    if as_json:
        named = [dict(zip(POSITION, position(letter), strict=True)) for letter in found]
        print_json({"dry_run": dry_run, "total": len(found), "letters": named})
    elif dry_run and found:
        print_letters(found, f"{len(found):,} dead letters {what}")
    else:
        out.print(f"{len(found):,} dead letters {what}.", highlight=False)
    if not found:
        raise typer.Exit(CHECK_FAILED)


SHOW_HELP = """Show one dead letter whole: reason, headers, schema id; with --payload also its bytes, raw and decoded.

The payload may hold personal data. Examples:

    lakehouse dlq show shop.public.orders:0:4711

    lakehouse dlq show shop.public.orders 0 4711 --payload
"""


@app.command("show", help=SHOW_HELP)
def show_letter(
    position: Annotated[list[str], typer.Argument(metavar="TOPIC:PARTITION:OFFSET")],
    payload: Annotated[
        bool, typer.Option("--payload", help="Print the record's bytes and what they decode to.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a dead letter."""
    try:
        topic, partition, offset = parse_position(position)
    except ValueError as error:
        fail(str(error), UNUSABLE, as_json)
    chosen = Wanted(frozenset({(topic, partition, offset)}), topic, states=frozenset({OPEN, REPLAYED, DISCARDED}))
    with expected_errors(as_json):
        settings = StackSettings.load()
        decoder = Decoder(settings.schema_registry_url)
        rows = Letters(open_catalog(settings)).find(chosen, decoder, WHOLE)
        if not rows:
            fail(f"no dead letter at {topic}:{partition}:{offset}", CHECK_FAILED, as_json)
        letter = _described(rows[0], decoder if payload else None)
    if as_json:
        print_json(letter)
        return
    for name, value in letter.items():
        if name in ("key", "value") and value:
            _print_part(name, value)
        else:
            out.print(f"{name:>16}  {value}", markup=False, highlight=False, soft_wrap=True)


def _described(row: dict[str, Any], decoder: Decoder | None) -> dict[str, Any]:
    """The letter as plain data; payload bytes only with a decoder."""
    letter = {name: row[name] for name in (*LISTED, "state", "because", "closed_at")}
    letter["headers"] = [
        {"key": h["key"], "value": _text(h["value"])} if decoder else {"key": h["key"]} for h in row["headers"] or []
    ]
    for part in ("key", "value"):
        data = row[part]
        letter[part] = None if data is None else {"bytes": len(data), "schema_id": _schema_id(data)}
        if data is not None and decoder is not None:
            letter[part] |= {"hex": data.hex()} | _decoded(data, decoder)
    return letter


def _decoded(data: bytes, decoder: Decoder) -> dict[str, Any]:
    try:
        value, _ = decoder.decode(data)
    except Undecodable as error:
        return {"undecodable": str(error)}
    return {"decoded": json.loads(json.dumps(value, default=str))}


def _print_part(name: str, part: dict[str, Any]) -> None:
    schema = f", schema id {part['schema_id']}" if part["schema_id"] is not None else ""
    out.print(f"{name:>16}  {part['bytes']:,} bytes{schema}", markup=False, highlight=False)
    for line in hexdump(bytes.fromhex(part.get("hex", ""))):
        out.print("    " + line, markup=False, highlight=False, soft_wrap=True)
    if "decoded" in part:
        out.print_json(data=part["decoded"])
    elif "undecodable" in part:
        out.print(f"    doesn't decode: {part['undecodable']}", markup=False, highlight=False, soft_wrap=True)


def _schema_id(data: bytes) -> int | None:
    return int.from_bytes(data[1:5], "big") if len(data) > 5 and data[0] == 0 else None


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")


def _first_line(row: dict[str, Any]) -> str:
    return (row["message"] or "").splitlines()[0] if row["message"] else ""
