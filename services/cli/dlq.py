"""`lakehouse dlq`: records that couldn't be merged, with the reason, and what can be done with them."""

import json
from typing import Annotated, Any

import typer
from rich.json import JSON

from pipelines.dead_letters.actions import DISCARDED, REPLAYED
from pipelines.kafka.avro import Undecodable
from services.cli import dlq_actions
from services.cli.letters import Key, Reason, Since, Topic, parse_position, print_letters, wanted
from services.cli.output import CHECK_FAILED, UNUSABLE, expected_errors, fail, print_json
from services.operations.dead_letters.letters import LISTED, OPEN, Letter, LetterFilter, Letters
from services.operations.dead_letters.replay import WHOLE
from services.stack.console import out
from services.stack.endpoints import StackSettings
from services.stack.lake import open_catalog
from services.stack.records import Decoder

app = typer.Typer(
    help="Dead letters: records that couldn't be merged.", no_args_is_help=True, rich_markup_mode="markdown"
)
app.add_typer(dlq_actions.app)
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def hexdump(data: bytes, width: int = 16) -> list[str]:
    """Lines of offset, bytes in hexadecimal, and their ASCII."""
    lines = []
    for start in range(0, len(data), width):
        part = data[start : start + width]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<{width * 3 - 1}}  {text}")
    return lines


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
        letters = Letters(open_catalog(settings), settings.protection_keys)
        rows = letters.find(chosen, Decoder(settings.schema_registry_url))
    groups: dict[tuple[str, str, str], int] = {}
    for row in rows:
        for part in ("key", "headers", "sealed"):
            row.pop(part, None)
        group = (row["topic"], row["stage"], row["reason"])
        groups[group] = groups.get(group, 0) + 1
    newest = sorted(rows, key=lambda row: row["dead_lettered_at"], reverse=True)[:limit]
    if as_json:
        counted = [{"topic": t, "stage": s, "reason": r, "count": n} for (t, s, r), n in sorted(groups.items())]
        print_json({"total": len(rows), "groups": counted, "letters": newest})
        return
    if not rows:
        out.print("No dead letters." if closed else "No open dead letters.")
    else:
        _print_newest(newest, groups)


def _print_newest(newest: list[Letter], groups: dict[tuple[str, str, str], int]) -> None:
    print_letters(newest, f"{sum(groups.values()):,} dead letters")
    for (name, stage, why), count in sorted(groups.items()):
        out.print(f"{count:>8,}  {name}  {stage}  {why}")


SHOW_HELP = """Show one dead letter whole: reason, headers, schema id; with --payload also its bytes, raw and decoded.

The payload may hold personal data. A letter of a table whose contract protects columns is sealed, and shown to whoever
has the PROTECTION_KEY. Examples:

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
    chosen = LetterFilter(frozenset({(topic, partition, offset)}), topic, states=frozenset({OPEN, REPLAYED, DISCARDED}))
    with expected_errors(as_json):
        settings = StackSettings.load()
        decoder = Decoder(settings.schema_registry_url)
        rows = Letters(open_catalog(settings), settings.protection_keys).find(chosen, decoder, WHOLE)
        if not rows:
            fail(f"no dead letter at {topic}:{partition}:{offset}", CHECK_FAILED, as_json)
        letter = _described(rows[0], decoder if payload else None)
    if as_json:
        print_json(letter)
    else:
        _print_letter(letter)


def _print_letter(letter: dict[str, Any]) -> None:
    for name, value in letter.items():
        if name in ("key", "value") and value:
            _print_part(name, value)
        else:
            out.print(f"{name:>16}  {value}")


def _described(row: dict[str, Any], decoder: Decoder | None) -> dict[str, Any]:
    """Return the letter as plain data; payload bytes only with a decoder."""
    letter = {name: row[name] for name in (*LISTED, "state", "because", "closed_at")}
    if row["sealed"] is not None:
        letter["protected"] = (
            "sealed; no PROTECTION_KEY here opens it" if row["sealed"] else "sealed; opened by the key"
        )
        decoder = None if row["sealed"] else decoder
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
    out.print(f"{name:>16}  {part['bytes']:,} bytes{schema}")
    for line in hexdump(bytes.fromhex(part.get("hex", ""))):
        out.print("    " + line)
    if "decoded" in part:
        out.print(JSON.from_data(part["decoded"]))
    elif "undecodable" in part:
        out.print(f"    doesn't decode: {part['undecodable']}")


def _schema_id(data: bytes) -> int | None:
    return int.from_bytes(data[1:5], "big") if len(data) > 5 and data[0] == 0 else None


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")
