"""What PostgreSQL's change events say, for who reads them without Spark. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from pipelines.sources.debezium.names import SOURCE_LENGTH, SOURCE_SCALE
from pipelines.sources.debezium.values import Convert, neutral


class PostgresEvents:
    """A :class:`pipelines.sources.base.database.SourceEvents`."""

    def value(self, value: Any, avro: Any) -> Any:
        """Return the neutral form of a decoded value whose writer schema is ``avro``."""
        return neutral(value, avro, _BY_SOURCE_TYPE)

    def log_position(self, source: Mapping[str, Any]) -> int:
        """Return the log position of an event.

        What an incremental snapshot read has none: it is as new as the newest change which came before it.
        """
        if source["lsn"] is not None:
            return int(source["lsn"])
        return max((int(lsn) for lsn in json.loads(source.get("sequence") or "[]") if lsn is not None), default=0)

    def log_text(self, position: int) -> str:
        """Return a log position as PostgreSQL prints it."""
        return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"

    def transaction(self, source: Mapping[str, Any]) -> int | None:
        """Return the id of an event's transaction, as the log has it; None: it is of none."""
        found: int | None = source.get("txId")
        return found


def _bits(value: bytes, length: int) -> str:
    """As PostgreSQL prints them: the least comes last. The connector doesn't tell leading zeros without a length."""
    number = int.from_bytes(value, "little")
    return f"{number:0{length}b}" if length or number else ""


def _number(text: str, scale: int) -> str:
    """As PostgreSQL prints it. The connector takes a negative scale for one beyond 1000, and fills up with zeros."""
    special = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}
    return special.get(text) or (text.split(".", maxsplit=1)[0] if scale > 1000 else text)


_BY_SOURCE_TYPE: dict[str, Convert] = {
    "NUMERIC": lambda text, source: _number(text, int(source.get(SOURCE_SCALE, 0))),
    "BIT": lambda octets, source: _bits(octets, int(source[SOURCE_LENGTH])),
    "VARBIT": lambda octets, _: _bits(octets, 0),
}
