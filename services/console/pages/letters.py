"""Dead letters: by reason, each by itself, put back or given up."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Form, HTTPException, Query, Request, Response
from fastapi.responses import RedirectResponse

from pipelines.dead_letters.actions import DISCARDED, REPLAYED
from pipelines.kafka.avro import Undecodable
from services.console.accounts import ACTIONS, Checked, Operator, Person, Viewer
from services.console.context import Console
from services.operations.audit_trail import audited
from services.operations.dead_letters.discard import discard
from services.operations.dead_letters.letters import OPEN, LetterFilter, Letters
from services.operations.dead_letters.replay import WHOLE, replay
from services.stack.lake import open_catalog
from services.stack.records import Decoder

PAGE = 50


def router(console: Console) -> APIRouter:
    """Return the pages' routes."""
    routes = APIRouter()

    @routes.get("/letters")
    def every(
        request: Request, who: Viewer, topic: str = "", reason: str = "", page: Annotated[int, Query(ge=1)] = 1,
        done: str = "",
    ) -> Response:  # fmt: skip
        found = console.house.letters
        total, rows = found.page(topic or None, reason or None, (page - 1) * PAGE, PAGE) if found else (0, [])
        return console.page(
            request, who, "letters.html", groups=found.counts if found else [], rows=rows, total=total, topic=topic,
            reason=reason, number=page, last=max(1, -(-total // PAGE)), done=done, seen=found is not None,
        )  # fmt: skip

    @routes.get("/letters/{topic}/{partition}/{offset}")
    def one(request: Request, who: Viewer, topic: str, partition: int, offset: int) -> Response:
        # What a contract protects is sealed in a letter, and opened for an administrator alone.
        keys = console.settings.protection_keys if who.may("admin") else None
        wanted = LetterFilter(
            frozenset({(topic, partition, offset)}), topic, states=frozenset({OPEN, REPLAYED, DISCARDED})
        )
        decoder = Decoder(console.settings.schema_registry_url)
        found = Letters(open_catalog(console.settings), keys).find(wanted, decoder, WHOLE)
        if not found:
            raise HTTPException(404, f"there is no dead letter at {topic}:{partition}:{offset}")
        return console.page(request, who, "letter.html", letter=found[0], payload=_payload(who, found[0], decoder))

    @routes.post("/letters/replay")
    def put_back(
        who: Operator, checked: Checked, because: Annotated[str, Form()], topic: Annotated[str, Form()] = "",
        reason: Annotated[str, Form()] = "", at: Annotated[str, Form()] = "",
    ) -> Response:  # fmt: skip
        del checked
        wanted, said = _wanted(topic, reason, at), console.reason(because)
        console.accounts.check_rate(ACTIONS, who.role)
        catalog = open_catalog(console.settings)
        letters = Letters(catalog, console.settings.protection_keys)
        decoder = Decoder(console.settings.schema_registry_url)
        with audited(catalog, "replay", at or f"topic {topic} reason {reason}", said, who.name) as doing:
            found = replay(letters, wanted, decoder, console.settings.kafka_bootstrap)
            doing.detail["letters"] = len(found)
        return RedirectResponse(f"/letters?done=replayed-{len(found)}", 303)

    @routes.post("/letters/discard")
    def give_up(
        who: Operator, checked: Checked, because: Annotated[str, Form()], topic: Annotated[str, Form()] = "",
        reason: Annotated[str, Form()] = "", at: Annotated[str, Form()] = "",
    ) -> Response:  # fmt: skip
        del checked
        wanted, said = _wanted(topic, reason, at), console.reason(because)
        console.accounts.check_rate(ACTIONS, who.role)
        catalog = open_catalog(console.settings)
        letters = Letters(catalog, console.settings.protection_keys)
        decoder = Decoder(console.settings.schema_registry_url)
        with audited(catalog, "discard", at or f"topic {topic} reason {reason}", said, who.name) as doing:
            found = discard(letters, wanted, decoder, console.settings.kafka_bootstrap, said)
            doing.detail["letters"] = len(found)
        return RedirectResponse(f"/letters?done=discarded-{len(found)}", 303)

    return routes


def _wanted(topic: str, reason: str, at: str) -> LetterFilter:
    """Return which letters are meant. Raises HTTPException where none is named."""
    if at:
        parts = at.rsplit(":", 2)
        if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit():
            return LetterFilter(frozenset({(parts[0], int(parts[1]), int(parts[2]))}), parts[0])
    elif topic and reason:
        return LetterFilter(topic=topic, reason=reason)
    raise HTTPException(422, "say which letters: one by topic:partition:offset, or a topic and a reason")


def _payload(who: Person, letter: dict[str, Any], decoder: Decoder) -> dict[str, Any]:
    """Return what of a letter's record somebody may see."""
    if not who.may("operator"):
        return {"hidden": "The record itself is shown to operators."}
    if letter["sealed"]:
        return {"hidden": "Its table's contract protects columns, so the record is sealed. An administrator sees it."}
    return {part: _part(letter[part], decoder) for part in ("key", "value") if letter[part] is not None}


def _part(data: bytes, decoder: Decoder) -> dict[str, Any]:
    found: dict[str, Any] = {"bytes": len(data), "hex": data[:256].hex(" ")}
    try:
        value, _ = decoder.decode(data)
        found["decoded"] = json.dumps(value, default=str, indent=1, ensure_ascii=False)[:20_000]
    except Undecodable as error:
        found["undecodable"] = str(error)
    return found
