"""Bit strings, which the connector sends as bytes."""

from pyspark.sql import Column
from pyspark.sql import functions as F


def bits(value: Column, length: int | None) -> Column:
    """Return bits as PostgreSQL prints them, from bytes whose least bit comes first.

    Without a ``length`` they begin with the first 1.
    """
    places = F.sequence(F.lit(length) - 1 if length else 8 * F.length(value), F.lit(0), F.lit(-1))

    def bit(place: Column) -> Column:
        octet = F.conv(F.hex(F.substring(value, F.floor(place / 8).cast("int") + 1, F.lit(1))), 16, 10).cast("int")
        return F.coalesce(F.getbit(octet, place % 8), F.lit(0)).cast("string")

    text = F.when(value.isNotNull(), F.array_join(F.transform(places, bit), ""))
    return text if length else F.regexp_replace(text, "^0+", "")
