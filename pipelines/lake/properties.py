"""Table properties: those of the platform, each said once, and those that its tables give to Iceberg."""

# What a table is of; without it, a source's table. EVENT_TIME: the column of a stream that says when an event happened.
KIND, EVENTS, EVENT_TIME = "lakehouse.kind", "events", "lakehouse.event-time"
DERIVED = "derived"
# In a derived table's commits: of which snapshots it is (input to table, its id and the snapshot's, as JSON), and of
# which definition. LATE_ROWS: how many rows of its windows' input came too late.
# COLUMN_ORIGINS, a property: column to the columns that it is made of: [table, column, whether the value is the same].
COLUMN_ORIGINS = "lakehouse.column-origins"
DERIVED_FROM, DEFINITION, LATE_ROWS = "lakehouse.derived-from", "lakehouse.definition", "lakehouse.late-rows"
# The source's table. KEY_COLUMNS: JSON list of the key's columns in the lake.
SOURCE, SOURCE_SCHEMA, SOURCE_TABLE = "lakehouse.source", "lakehouse.source-schema", "lakehouse.source-table"
TOPIC, KEY_COLUMNS = "lakehouse.topic", "lakehouse.key-columns"
# The source's table (its number), its column numbers as JSON (number to the lake's name), and the log position of that
# schema.
RELATION, ATTRIBUTES, SCHEMA_POSITION = "lakehouse.relation", "lakehouse.attributes", "lakehouse.schema-lsn"
SCHEMA_HISTORY, BACKFILL = "lakehouse.schema-history", "lakehouse.backfill"
# Columns that the table's policy keeps from following the source's, as JSON: the source's name to what isn't followed.
WITHHELD = "lakehouse.withheld"
# Column to how its values are protected, as JSON (see pipelines.protection.columns).
PROTECTED = "lakehouse.protected"
# When the table was last purged, in milliseconds since 1970.
PURGED = "lakehouse.purged"

# What a table's contract says. COMMENT is the one that Spark, Trino and others show of a table; CONTRACT_CLASSES and
# CONTRACT_PROTECTED: column to classification, and to what was done to its values, as JSON.
COMMENT = "comment"
CONTRACT_PREFIX = "lakehouse.contract."
CONTRACT_VERSION, CONTRACT_STATUS = CONTRACT_PREFIX + "version", CONTRACT_PREFIX + "status"
CONTRACT_OWNER, CONTRACT_STEWARD = CONTRACT_PREFIX + "owner", CONTRACT_PREFIX + "steward"
CONTRACT_CLASSES, CONTRACT_PROTECTED = CONTRACT_PREFIX + "classification", CONTRACT_PREFIX + "protected"
CONTRACT_FRESHNESS, CONTRACT_RETENTION = CONTRACT_PREFIX + "freshness-seconds", CONTRACT_PREFIX + "retention-seconds"

# Of a dataset that a role is shown. PUBLISHED_PROTECTED: column to what was done to its values, as JSON.
PUBLISHED_OF, PUBLISHED_ROLE = "lakehouse.published-of", "lakehouse.published-role"
PUBLISHED_DEFINITION, PUBLISHED_PROTECTED = "lakehouse.published-definition", "lakehouse.published-protected"
PUBLISHED_SNAPSHOT = "lakehouse.published-snapshot"

# How positions of deleted rows are kept: of a commit and partition in one file, or of each data file by itself.
DELETE_GRANULARITY, BY_PARTITION, BY_FILE = "write.delete.granularity", "partition", "file"

# Engines share a file's reading out by its row groups, and leave out those that hold nothing of what is asked for.
ROW_GROUPS = "write.parquet.row-group-size-bytes"


# What Spark takes opening a file for, as so many bytes read. With Iceberg's 4 MB, and as many files of deletes opened
# with each of data, every small file is a task of its own.
OPENING = "read.split.open-file-cost"


READING = {ROW_GROUPS: str(16 << 20), OPENING: str(256 << 10)}


TABLE_PROPERTIES = {
    "format-version": "2",
    # Until it has many files (see pipelines.maintenance.plan.deletes).
    DELETE_GRANULARITY: BY_PARTITION,
    "write.merge.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.delete.mode": "merge-on-read",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "50",
    "write.distribution-mode": "none",
    "commit.retry.num-retries": "10",
    # Each commit adds a manifest of data and one of deletes, which every reader opens.
    "commit.manifest.min-count-to-merge": "8",
    **READING,
}
