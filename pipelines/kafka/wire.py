"""Confluent's wire format, and the headers of records, as Spark columns."""

from pyspark.sql import Column
from pyspark.sql import functions as F

MAGIC = b"\x00"


HEADER_BYTES = 5


ID_BYTES = 4


def schema_id(column: str) -> Column:
    """Return the four bytes of the schema id in Confluent's wire format; null where the bytes aren't that.

    They come after a zero byte. Spark has no cheap way to make a number of them; compare them with :func:`id_bytes`.
    """
    value = F.col(column)
    framed = (F.length(value) > HEADER_BYTES) & (F.substring(value, 1, 1) == F.lit(MAGIC))
    return F.when(framed, F.substring(value, 2, ID_BYTES))


def id_bytes(schema_id: int) -> bytes:
    """Return a schema id as it is in a record."""
    return schema_id.to_bytes(ID_BYTES, "big")


def schema_number(found: bytes | None) -> int | None:
    """Return the schema id of what :func:`schema_id` found."""
    return None if found is None else int.from_bytes(found, "big")


def is_replayed(headers: Column) -> Column:
    """Return whether a record is a replayed dead letter. Never null."""
    found = F.exists(headers, lambda header: header["key"] == F.lit(REPLAYED_FROM))
    return F.coalesce(found, F.lit(False))


# The header of a dead letter that was put back on its topic: the partition and offset at which it had been.
REPLAYED_FROM = "lakehouse.replayed-from"
