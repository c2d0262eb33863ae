"""PostgreSQL's dialect of Debezium."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.sources.debezium.dialect import Dialect
from pipelines.sources.postgres.lost import lost
from pipelines.sources.postgres.types import declared_type, element_type, is_explained


def log_position() -> Column:
    """Return the LSN of the change.

    What an incremental snapshot read has none: it is as new as the newest change that the connector had sent by then,
    and had seen committed.
    """
    sent = F.from_json("event.source.sequence", "array<string>").cast("array<bigint>")
    return F.coalesce(F.col("event.source.lsn"), F.array_max(sent))


def table() -> Column:
    """Return the event's table as ``schema.table``."""
    return F.concat_ws(".", "event.source.schema", "event.source.table")


POSTGRES = Dialect(
    connector="io.debezium.connector.postgresql",
    source_fields=(
        ("lsn", "long"), ("ts_us", "long"), ("sequence", "string"), ("schema", "string"), ("table", "string"),
    ),
    log_position=log_position,
    table=table,
    declared_type=declared_type,
    element_type=element_type,
    explained=is_explained,
    lost=lost,
)  # fmt: skip
