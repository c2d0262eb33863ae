"""Letters of tables that protect something: sealed, so that whoever has the topic or the table of dead letters can't
read them, and opened again by who has the key.

A sealed letter has its key, and its value with its headers, encrypted and bound to its position; and one header that
says so. What says why it is a letter names columns and promises, never values, and stays as it is.
"""

import io
import json
from typing import Any

import fastavro
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro

from pipelines.protection.crypto import ProtectionKeys, letter_place
from pipelines.protection.functions import Vault

# The header of a sealed letter. Its value is the fingerprint of the key.
SEALED = "lakehouse.sealed"
_HEADER = {
    "type": "record", "name": "Header",
    "fields": [{"name": "key", "type": ["null", "string"]}, {"name": "value", "type": ["null", "bytes"]}],
}  # fmt: skip
_SCHEMA = {
    "type": "record", "name": "Letter",
    "fields": [{"name": "value", "type": ["null", "bytes"]},
               {"name": "headers", "type": ["null", {"type": "array", "items": ["null", _HEADER]}]}],
}  # fmt: skip
_PARSED = fastavro.parse_schema(_SCHEMA)


def seal(letters: DataFrame, vault: Vault) -> DataFrame:
    """``letters`` of :mod:`pipelines.dead_letters.store`, sealed."""
    whole = to_avro(F.struct("value", "headers"), json.dumps(_SCHEMA))
    mark = F.struct(F.lit(SEALED).alias("key"), F.lit(vault.keys.fingerprint.encode()).alias("value"))
    return letters.withColumns(
        {
            "key": vault.sealed(F.col("key"), _place("key")),
            "value": vault.sealed(whole, _place("value")),
            "headers": F.array(mark).cast(letters.schema["headers"].dataType),
        }
    )


def open_key(vault: Vault) -> Column:
    """The key of a letter, of which ``key`` and ``headers`` are given: of a sealed one what it was, or null if that
    can't be read.
    """
    mine = F.exists("headers", lambda header: header["key"] == F.lit(SEALED))
    return F.when(F.coalesce(mine, F.lit(False)), vault.opened(F.col("key"), _place("key"))).otherwise(F.col("key"))


def sealed_by(letter: dict[str, Any]) -> str | None:
    """The fingerprint of the key that a letter is sealed with; None: it isn't."""
    return next((bytes(h["value"]).decode() for h in letter["headers"] or [] if h["key"] == SEALED), None)


def opened(letter: dict[str, Any], keys: ProtectionKeys) -> dict[str, Any]:
    """A sealed letter as it was: of ``key``, ``value`` and ``headers`` those that it has. Raises Unreadable."""
    place = letter_place(letter["topic"], letter["partition"], letter["offset"])
    found = {**letter}
    if letter.get("key") is not None:
        found["key"] = keys.opened(letter["key"], f"{place}:key")
    if letter.get("value") is not None:
        plain = io.BytesIO(keys.opened(letter["value"], f"{place}:value"))
        whole: Any = fastavro.schemaless_reader(plain, _PARSED, None)
        found |= {"value": whole["value"], "headers": whole["headers"]}
    return found


def _place(part: str) -> Column:
    return F.concat_ws(":", "topic", F.col("partition").cast("string"), F.col("offset").cast("string"), F.lit(part))
