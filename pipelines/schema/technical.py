"""The technical columns of every mirrored table."""

# Technical column of the lake to the change row's field. (Iceberg reserves `_partition` itself.)
TECHNICAL = {
    "_kafka_partition": "partition",
    "_kafka_offset": "offset",
    "_lsn": "log_position",
    "_committed_at": "committed_at",
    "_op": "op",
}


# What the operation of a row is that a snapshot read.
SNAPSHOT_READ = "r"

# Those that tell which record wrote a row.
RECORD = ("_kafka_partition", "_kafka_offset")


TECHNICAL_TYPES = {
    "_kafka_partition": "int", "_kafka_offset": "long", "_lsn": "long", "_committed_at": "timestamptz", "_op": "string",
}  # fmt: skip
