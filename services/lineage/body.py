"""Body: what a client posts, decompressed within bounds and parsed."""

import json
import zlib
from typing import Any, NoReturn

from fastapi import HTTPException, Request

MOST_BYTES = 8 * 1024 * 1024
_GZIP, _ZLIB, _RAW = 31, 15, -15
_READ = "gzip, deflate"


async def posted_json(request: Request) -> Any:
    """Return the JSON that a request holds. Raises HTTPException: 400, 413 or 415, and why."""
    encodings = [
        each for each in (e.strip().lower() for e in request.headers.get("content-encoding", "").split(","))
        if each not in ("", "identity")
    ]  # fmt: skip
    unknown = [each for each in encodings if each not in ("gzip", "x-gzip", "deflate")]
    if unknown or len(encodings) > 1:
        raise HTTPException(
            415, f"Content-Encoding {', '.join(encodings)} isn't read here: send the event plain, or as one of {_READ}",
            headers={"Accept-Encoding": _READ},
        )  # fmt: skip
    content = await _content(request)
    if encodings:
        content = decompressed(content, encodings[0])
    try:
        return json.loads(content, parse_constant=_no_number)
    except ValueError as error:
        raise HTTPException(400, f"not JSON: {error}") from None
    except RecursionError:
        raise HTTPException(400, "the JSON is nested too deeply") from None


def decompressed(content: bytes, encoding: str) -> bytes:
    """Return what was compressed as ``gzip`` or ``deflate`` (zlib's format, or bare as some clients send it).

    Never makes more than `MOST_BYTES` and one of it. Raises HTTPException.
    """
    found = b""
    while content:
        stream = zlib.decompressobj(_window(content, encoding))
        try:
            found += stream.decompress(content, MOST_BYTES - len(found) + 1)
        except zlib.error as error:
            raise HTTPException(400, f"the body isn't {encoding}, as its Content-Encoding says: {error}") from None
        if len(found) > MOST_BYTES:
            raise _too_large()
        if not stream.eof:
            raise HTTPException(400, f"the body's {encoding} is cut short")
        # A file of gzip may be several, one after the other.
        content = stream.unused_data
    return found


def _window(content: bytes, encoding: str) -> int:
    if encoding != "deflate":
        return _GZIP
    zlib_header = content[0] & 0x0F == 8 and int.from_bytes(content[:2]) % 31 == 0
    return _ZLIB if zlib_header else _RAW


async def _content(request: Request) -> bytes:
    size = 0
    parts = []
    async for part in request.stream():
        size += len(part)
        if size > MOST_BYTES:
            raise _too_large()
        parts.append(part)
    return b"".join(parts)


def _too_large() -> HTTPException:
    return HTTPException(413, f"an event has at most {MOST_BYTES} bytes, decompressed")


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
