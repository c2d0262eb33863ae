"""Protect: values as a contract wants them in the lake (:mod:`quality.protection`), by Spark's own functions.

Keys reach Spark as the row of a relation, of which plans print the columns' names only, and are read by scalar
subqueries: as literals they would be in every plan, in Spark's web pages and in its event log.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.protection.crypto import IV_BYTES, SHARED, Hmac, ProtectionKeys
from quality.protection import HIDDEN, LONG, SHOWN, Protection

# Iceberg's types (printed) that have a text which Spark, DuckDB and Python write alike.
WRITTEN = ("string", "uuid", "binary", "boolean", "int", "long", "date", "timestamp", "timestamptz")
NULL = "CAST(NULL AS string)"


def has_text(iceberg: Any) -> bool:
    """Whether values of an Iceberg type (printed, or in JSON form) have a text to protect."""
    return isinstance(iceberg, str) and (iceberg in WRITTEN or iceberg.startswith("decimal"))


def text_of(value: Column, iceberg: Any) -> Column:
    """The canonical text: numbers in digits, dates and times as ISO 8601 has them (in UTC, with a blank and without
    zeros at the end), bytes in hexadecimal.
    """
    if iceberg == "binary":
        return F.lower(F.hex(value))
    return value if iceberg in ("string", "uuid") else value.cast("string")


@dataclass(frozen=True)
class Vault:
    """Keys, and where Spark has them."""

    keys: ProtectionKeys
    row: DataFrame

    @classmethod
    def of(cls, spark: SparkSession, keys: ProtectionKeys) -> "Vault":
        """``keys``, given to ``spark``."""
        hashing, synthetic = Hmac.of(keys.hash), Hmac.of(keys.synthetic)
        columns = {
            "hash_inner": hashing.inner, "hash_outer": hashing.outer, "synthetic_inner": synthetic.inner,
            "synthetic_outer": synthetic.outer, "token": keys.token, "value": keys.value, "letter": keys.letter,
        }  # fmt: skip
        return cls(keys, spark.createDataFrame(pa.table({name: [key] for name, key in columns.items()})))

    def protected(self, text: Column, protection: Protection, place: str) -> Column:
        """What a canonical text becomes; null stays null. ``place``: what an encrypted value is bound to."""
        apply: Mapping[Protection, Callable[[], Column]] = {
            "hash": lambda: self._hmac(text, "hash"),
            "tokenise": lambda: self._encrypted(text, "token", SHARED, self._synthetic(text)),
            "encrypt": lambda: self._encrypted(text, "value", place),
            "mask": lambda: mask(text),
            "drop": lambda: F.expr(NULL),
        }
        return apply[protection]()

    def sealed(self, data: Column, place: Column) -> Column:
        """Encrypt a part of a dead letter, bound to the letter's ``place`` (see :func:`letter_place`)."""
        return _aes("aes_encrypt", data, self._key("letter"), F.lit(b""), place)

    def opened(self, data: Column, place: Column) -> Column:
        """What was sealed; null if it can't be read."""
        return F.try_aes_decrypt(data, self._key("letter"), F.lit("GCM"), F.lit("DEFAULT"), place.cast("binary"))

    def _key(self, name: str) -> Column:
        return self.row.select(name).scalar()

    def _hmac(self, text: Column, key: str) -> Column:
        inner, outer = (self._key(f"{key}_{block}") for block in ("inner", "outer"))
        return F.sha2(F.concat(outer, F.unhex(F.sha2(F.concat(inner, text.cast("binary")), 256))), 256)

    def _synthetic(self, text: Column) -> Column:
        return F.unhex(F.substring(self._hmac(text, "synthetic"), 1, 2 * IV_BYTES))

    def _encrypted(self, text: Column, key: str, place: str, vector: Column | None = None) -> Column:
        vector = F.lit(b"") if vector is None else vector
        sealed = _aes("aes_encrypt", text.cast("binary"), self._key(key), vector, F.lit(place))
        # Spark breaks the lines of a long one.
        return F.replace(F.base64(sealed), F.lit("\r\n"), F.lit(""))


def mask(text: Column) -> Column:
    """As :func:`quality.protection.masked`."""
    parts = F.split(text, F.lit("@"))
    is_address = (F.size(parts) == 2) & (F.get(parts, F.lit(0)) != "") & (F.get(parts, F.lit(1)) != "")
    end = F.when(F.length(text) > LONG, F.substring(text, -SHOWN, SHOWN)).otherwise(F.lit(""))
    hint = F.when(is_address, F.concat(F.lit("@"), F.get(parts, F.lit(1)))).otherwise(end)
    return F.when(text.isNotNull(), F.concat(F.lit(HIDDEN), hint))


def _aes(function: str, data: Column, key: Column, vector: Column, place: Column) -> Column:
    return F.call_function(function, data, key, F.lit("GCM"), F.lit("DEFAULT"), vector, place.cast("binary"))
