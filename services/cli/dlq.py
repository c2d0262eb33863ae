"""`lakehouse dlq`: records that couldn't be merged, with the reason, as the lake keeps them."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, GreaterThanOrEqual
from pyiceberg.table import Table as LakeTable
from rich.table import Table

from pipelines.avro import Undecodable
from services.cli.output import CHECK_FAILED, UNUSABLE, expected_errors, fail, out, print_json
from services.verify.lake import dead_letters, open_catalog
from services.verify.settings import StackSettings
from services.verify.tail import Decoder

app = typer.Typer(
    help="Dead letters: records that couldn't be merged.", no_args_is_help=True, rich_markup_mode="markdown"
)
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

_POSITION = ("topic", "partition", "offset")
_LISTED = (*_POSITION, "stage", "reason", "message", "timestamp", "dead_lettered_at")
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


LIST_HELP = """List dead letters, newest first.

Examples:

    lakehouse dlq list --since 1h

    lakehouse dlq list --topic shop.public.orders --reason unknown_schema --json
"""


@app.command("list", help=LIST_HELP)
def list_letters(
    topic: Annotated[str | None, typer.Option(help="Only this topic.")] = None,
    reason: Annotated[str | None, typer.Option(help="Only this reason.")] = None,
    since: Annotated[str | None, typer.Option(help="Only since then: 15m, 2h, 1d or ISO 8601.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many to list.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List dead letters."""
    wanted: list[BooleanExpression] = []
    if topic:
        wanted.append(_is("topic", topic))
    if reason:
        wanted.append(_is("reason", reason))
    if since:
        try:
            moment = parse_since(since, datetime.now(UTC))
        except ValueError:
            fail(f"--since {since} is neither like 15m, 2h, 1d nor ISO 8601", UNUSABLE, as_json)
        wanted.append(GreaterThanOrEqual(term="dead_lettered_at", value=moment.isoformat()))
    with expected_errors(as_json):
        table = _open(StackSettings.load())
        rows = [] if table is None else _rows(table, wanted, _LISTED)
    groups: dict[tuple[str, str, str], int] = {}
    for row in rows:
        group = (row["topic"], row["stage"], row["reason"])
        groups[group] = groups.get(group, 0) + 1
    newest = sorted(rows, key=lambda row: row["dead_lettered_at"], reverse=True)[:limit]
    if as_json:
        counted = [{"topic": t, "stage": s, "reason": r, "count": n} for (t, s, r), n in sorted(groups.items())]
        print_json({"total": len(rows), "groups": counted, "letters": newest})
        return
    if not rows:
        out.print("No dead letters.")
        return
    grid = Table("position", "stage", "reason", "dead-lettered", "message", title=f"{len(rows):,} dead letters",
                 title_justify="left")  # fmt: skip
    for row in newest:
        position = ":".join(str(row[name]) for name in _POSITION)
        grid.add_row(
            position, row["stage"], row["reason"], f"{row['dead_lettered_at']:%Y-%m-%d %H:%M:%S}", _first_line(row)
        )
    out.print(grid)
    for (name, stage, why), count in sorted(groups.items()):
        out.print(f"{count:>8,}  {name}  {stage}  {why}", markup=False, highlight=False)


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
    wanted = [_is("topic", topic), _is("partition", partition), _is("offset", offset)]
    with expected_errors(as_json):
        settings = StackSettings.load()
        table = _open(settings)
        rows = [] if table is None else _rows(table, wanted, (*_LISTED, "key", "value", "headers"))
        if not rows:
            fail(f"no dead letter at {topic}:{partition}:{offset}", CHECK_FAILED, as_json)
        letter = _described(rows[0], Decoder(settings.schema_registry_url) if payload else None)
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
    letter = {name: row[name] for name in _LISTED}
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


def _is(column: str, value: Any) -> BooleanExpression:
    return EqualTo(term=column, value=value)


def _open(settings: StackSettings) -> LakeTable | None:
    return dead_letters(open_catalog(settings))


def _rows(table: LakeTable, wanted: list[BooleanExpression], columns: tuple[str, ...]) -> list[dict[str, Any]]:
    condition: BooleanExpression = AlwaysTrue()
    for part in wanted:
        condition = And(condition, part)
    rows: list[dict[str, Any]] = table.scan(row_filter=condition, selected_fields=columns).to_arrow().to_pylist()
    return rows


def _schema_id(data: bytes) -> int | None:
    return int.from_bytes(data[1:5], "big") if len(data) > 5 and data[0] == 0 else None


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")


def _first_line(row: dict[str, Any]) -> str:
    return (row["message"] or "").splitlines()[0] if row["message"] else ""
