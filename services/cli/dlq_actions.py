"""`lakehouse dlq replay` (for short `lakehouse replay`), `discard` and `accept`."""

from typing import Annotated

import typer

from services.cli.letters import Key, Positions, Reason, Since, Topic, print_letters, wanted
from services.cli.output import (
    CHECK_FAILED,
    UNUSABLE,
    Because,
    NeededBecause,
    expected_errors,
    fail,
    need_reason,
    print_json,
)
from services.operations.audit_trail import audited
from services.operations.dead_letters.discard import discard
from services.operations.dead_letters.letters import POSITION, Letter, LetterFilter, Letters, position
from services.operations.dead_letters.replay import replay, with_keys
from services.stack.console import out
from services.stack.endpoints import StackSettings
from services.stack.lake import open_catalog
from services.stack.offsets import kafka
from services.stack.records import Decoder

app = typer.Typer(rich_markup_mode="markdown")
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

REPLAY_HELP = """Put dead letters back on their topics, once what was wrong is mended.

Later events of a key wait behind its dead letter; they are replayed with it, in their order. A letter that fails again
comes back, with its history in its headers. `lakehouse replay` is short for it. Examples:

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
    because: Because = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which.")] = False,
    as_json: AsJson = False,
) -> None:
    """Replay dead letters."""
    chosen = _named(positions, topic, reason, since, key, as_json)
    with expected_errors(as_json):
        settings = StackSettings.load()
        letters = Letters(catalog := open_catalog(settings), settings.protection_keys)
        decoder = Decoder(settings.schema_registry_url)
        if dry_run:
            found = with_keys(letters, chosen, decoder)
        else:
            with audited(catalog, "replay", _told(chosen), because) as doing:
                found = replay(letters, chosen, decoder, settings.kafka_bootstrap)
                doing.detail["letters"] = len(found)
    _done("would be replayed" if dry_run else "replayed", found, as_json, dry_run)


DISCARD_HELP = """Give dead letters up, with a reason that is kept. The lake stays without what they say.

What waits behind them waits on if another letter of its key is open. Examples:

    lakehouse dlq discard shop.public.orders:0:4711 --because "sent by a test"

    lakehouse dlq discard --reason not_avro --since 1h --because "a producer gone wrong" --dry-run
"""


@app.command("discard", help=DISCARD_HELP)
def discard_letters(
    because: NeededBecause,
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
    need_reason(because, as_json)
    with expected_errors(as_json):
        settings = StackSettings.load()
        letters = Letters(catalog := open_catalog(settings), settings.protection_keys)
        decoder = Decoder(settings.schema_registry_url)
        if dry_run:
            found = letters.find(chosen, decoder)
        else:
            with audited(catalog, "discard", _told(chosen), because) as doing:
                found = discard(letters, chosen, decoder, settings.kafka_bootstrap, because)
                doing.detail["letters"] = len(found)
    _done("would be discarded" if dry_run else "discarded", found, as_json, dry_run)


ACCEPT_HELP = """Let a held table go on whose records would mostly become dead letters: those that its topic holds now.

TOPIC is as `lakehouse table list` names it. The mirror tries again within a minute. Example:

    lakehouse dlq accept shop.public.orders --because "the old system's rows; they are mended by hand"
"""


@app.command("accept", help=ACCEPT_HELP)
def accept_letters(
    topic: Annotated[str, typer.Argument(help="The table's topic.")],
    because: NeededBecause,
    as_json: AsJson = False,
) -> None:
    """Let any number of dead letters pass."""
    need_reason(because, as_json)
    with expected_errors(as_json):
        settings = StackSettings.load()
        topics = kafka(settings)
        accepted = topics.ends_of(topic)
        if not accepted:
            held = ", ".join(sorted(topics.held())) or "none"
            fail(f"no captured table has the topic {topic}. Held: {held}.", UNUSABLE, as_json)
        with audited(catalog := open_catalog(settings), "accept", topic, because):
            Letters(catalog).accept(topic, accepted, because)
    if as_json:
        print_json({"topic": topic, "accepted_below": {str(p): end for p, end in accepted.items()}})
    else:
        out.print(f"Whatever {topic} holds now may become dead letters.")


def _named(
    positions: list[str] | None, topic: str | None, reason: str | None, since: str | None, key: str | None,
    as_json: bool,
) -> LetterFilter:  # fmt: skip
    chosen = wanted(positions, topic, reason, since, key, as_json)
    if not chosen.has_condition:
        fail("say which: positions, --topic, --reason, --since or --key (`lakehouse dlq list` shows them)", UNUSABLE,
             as_json)  # fmt: skip
    return chosen


def _told(chosen: LetterFilter) -> str:
    """Return which letters are meant, in words. Not by which key: that may be somebody's."""
    words = [":".join(map(str, at)) for at in sorted(chosen.positions)]
    words += [f"{name} {value}" for name in ("topic", "reason", "since") if (value := getattr(chosen, name))]
    return ", ".join([*words, "one key"] if chosen.key is not None else words)


def _done(what: str, found: list[Letter], as_json: bool, dry_run: bool) -> None:
    if as_json:
        named = [dict(zip(POSITION, position(letter), strict=True)) for letter in found]
        print_json({"dry_run": dry_run, "total": len(found), "letters": named})
    elif dry_run and found:
        print_letters(found, f"{len(found):,} dead letters {what}")
    else:
        out.print(f"{len(found):,} dead letters {what}.")
    if not found:
        raise typer.Exit(CHECK_FAILED)
