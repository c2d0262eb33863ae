"""The names of a source's tables and columns in Kafka and Avro, which allow fewer characters. Pure.

A table's topic is ``<source>.<schema>.<table>`` with every character that a topic can't have, counted in UTF-16 units,
as ``_u`` and its hexadecimal number: no two tables meet on one topic. Columns keep their names in the events as far as
Avro allows; an event's schema says the true name of each that it doesn't.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

TOPIC_NAMING = "io.debezium.schema.SchemaUnicodeTopicNamingStrategy"
# Kafka's own limit.
MAX_TOPIC_LENGTH = 249
# What the connector says of a column in the source, where it is asked to.
SOURCE_COLUMN, SOURCE_TYPE = "__debezium.source.column.name", "__debezium.source.column.type"
SOURCE_LENGTH, SOURCE_SCALE = "__debezium.source.column.length", "__debezium.source.column.scale"

# What the connector says of the other key of a row whose key changes, in a header of either event.
OLD_KEY_HEADER, NEW_KEY_HEADER = "__debezium.oldkey", "__debezium.newkey"

# The lake's technical columns, and what Iceberg takes for columns of its own.
RESERVED = {
    "_kafka_partition", "_kafka_offset", "_lsn", "_committed_at", "_op",
    "_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number",
}  # fmt: skip

_PLAIN = re.compile(r"[A-Za-z0-9._-]")
_ESCAPED = re.compile(r"_u[0-9a-f]{3,4}")
_NOT_AVRO = re.compile(r"(^|\.)([0-9.]|$)")
_UNDERSCORES = 48
ESCAPED_UNDERSCORE = "_u005f"


def topic_name(source: str, schema: str, table: str) -> str:
    """Return the topic of a table."""
    return f"{source}.{escaped(schema)}.{escaped(table)}"


def table_of(topic: str, known: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """Return schema and table of a topic. ``known``: schema and name of the tables there are.

    A name without escapes tells itself, and one that no known table has is taken as it is.
    """
    source, schema, table = topic.split(".", 2)
    candidates = known if is_escaped(topic) else ()
    return next((names for names in candidates if topic_name(source, *names) == topic), (schema, table))


def is_escaped(topic: str) -> bool:
    """Return whether a topic's name may have escapes in it."""
    return _ESCAPED.search(topic) is not None


def escaped(name: str) -> str:
    """Return a name as it is in a topic."""
    return "".join(character if _PLAIN.match(character) else _escape(character) for character in name)


def column_name(field: dict[str, Any]) -> str:
    """Return the true name of a column, from its field in an event's Avro schema."""
    branches = field["type"] if isinstance(field["type"], list) else [field["type"]]
    true_names = (b["connect.parameters"][SOURCE_COLUMN] for b in branches if isinstance(b, dict) and _is_told(b))
    return str(next(true_names, field["name"]))


def row_of(envelope: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of a row, from the schema of a change event."""
    before = next(f["type"] for f in envelope["fields"] if f["name"] == "before")
    record = next(branch for branch in before if isinstance(branch, dict))
    return list(record["fields"])


def column_names(envelope: Mapping[str, Any]) -> dict[str, str]:
    """Return what the events call a column, to its true name."""
    return {field["name"]: column_name(field) for field in row_of(envelope)}


def why_unusable(source: str, schema: str, table: str, columns: Iterable[str]) -> str | None:
    """Return why a table can't be mirrored under its own names, and what to do; None if it can."""
    if _NOT_AVRO.search(f"{schema}.{table}"):
        return "its name begins with a digit, or a part of it between dots does, which Avro doesn't allow (rename it)"
    if len(topic_name(source, schema, table)) > MAX_TOPIC_LENGTH:
        return f"its name, with escapes, makes a topic name of more than {MAX_TOPIC_LENGTH} characters (rename it)"
    for column in columns:
        if "." in column:
            return f"the column {column} has a dot in its name, which neither Avro nor Iceberg can hold (rename it)"
        if column.lower() in RESERVED:
            return f"the column {column} has a name that the lake uses itself (rename it)"
    return None


def need_escapes(columns: Iterable[str]) -> bool:
    """Return whether these columns of one table can only be told apart in Avro if what it doesn't allow is escaped."""
    plain = [re.sub(r"[^A-Za-z0-9_]", "_", column) for column in columns]
    return len(set(plain)) < len(plain)


def routing() -> dict[str, str]:
    """Return connector settings that name the topics so.

    The strategy escapes the underscore too; a router puts it back.
    """
    plain = r"[^_]*+(?:_(?!u005f)[^_]*+)*+"
    groups = "".join(f"(?:(_)u005f({plain}))?+" for _ in range(_UNDERSCORES))
    return {
        "topic.naming.strategy": TOPIC_NAMING,
        "transforms": "underscores",
        "transforms.underscores.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.underscores.regex": f"({plain}){groups}",
        "transforms.underscores.replacement": "".join(f"${number}" for number in range(1, 2 * _UNDERSCORES + 2)),
    }


def _is_told(branch: dict[str, Any]) -> bool:
    return SOURCE_COLUMN in branch.get("connect.parameters", {})


def _escape(character: str) -> str:
    units = character.encode("utf-16-be")
    numbers = (int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2))
    return "".join(f"_u00{n:x}" if n < 0x100 else f"_u{n:x}" for n in numbers)
