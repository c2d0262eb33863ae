"""The contract of a change row, which every source's records are decoded to. Pure.

One row for each record that isn't a tombstone:

- ``partition``, ``offset``: the record's place in its topic.
- ``op``: one of ``OPERATIONS``. (Of a replayed dead letter that a snapshot had read: a create, which the log position
  guards.)
- ``log_position``: a long that rises in the order in which the source made its changes; ``committed_at``: when it did.
- ``row``: a struct of the source's columns in the lake's types: the new state, or for a delete the key.
- ``before``: in a table without a key the whole row that an update or delete removes, such a struct; else null. Other
  tables have no such column.
- ``unavailable``: a struct of booleans, one a column whose unchanged value the source may leave out of an update.
- ``old_key``: the key before a change of the key, as JSON, on the create that follows it; ``leaving``: whether a delete
  is the first half of a change of the key.
- ``replayed``: whether the record had been a dead letter.
- ``problem``: null, or why the record can't be used: a code of ``EXPLANATIONS``, or ``code: detail``.
"""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.kafka.wire import id_bytes
from pipelines.schema.columns import TableShape

DELETE, UPSERT, TRUNCATE = "d", "u", "t"
CREATES = ("c", "r")
OPERATIONS = ("c", "r", "u", "d", TRUNCATE)
# The column with what each promise of a contract has found (see pipelines.changes.enforce).
FOUND_BROKEN = "broken"

# Problems that decoding finds.
NOT_AVRO, UNKNOWN_SCHEMA, UNDECODABLE = "not_avro", "unknown_schema", "undecodable"
FOREIGN_TABLE, UNREPRESENTABLE = "foreign_table", "unrepresentable_value"
# Those of an event that is no row's change.
NO_SCHEMA, NOT_JSON, MISSING_VALUE = "no_schema_id", "not_json", "missing_value"
TOO_OLD, FUTURE = "too_old", "in_the_future"
# Problems that are found later.
NO_KEY, UNKNOWN_OPERATION, UNAVAILABLE = "no_key", "unknown_operation", "unavailable_value"
PARKED, WITHHELD, UNKNOWN_ROW, BROKEN = "parked", "schema_withheld", "unknown_row", "rule_broken"

EXPLANATIONS = {
    NOT_AVRO: "the value isn't in Confluent's wire format (a zero byte, a schema id, Avro)",
    UNKNOWN_SCHEMA: "the schema registry has no schema of this id, or none that it can read",
    "foreign_schema": "the schema isn't that of a change event of this topic's table",
    FOREIGN_TABLE: "the event is one of another table than this topic's",
    "unsupported_type": "a column has a type which the lake can't hold yet",
    UNDECODABLE: "the bytes don't decode with the schema they name, or hold no row",
    UNREPRESENTABLE: "a value is outside what the lake's type can hold",
    NO_KEY: "a change of an existing row needs its key, or the whole old row (REPLICA IDENTITY FULL) where the table"
    " has none, and the event hasn't got it",
    UNKNOWN_OPERATION: "the operation isn't one of Debezium's",
    PARKED: "an earlier event of its key is a dead letter, behind which it waits",
    WITHHELD: "the row needs a change of the schema which the table's spec doesn't let it follow (discard_row)",
    BROKEN: "the row breaks what its table's contract promises, and the contract says to reject it",
    UNKNOWN_ROW: "the table has no key, and no row of the lake equals the one that the event changes or deletes",
    UNAVAILABLE: "an unchanged value was left out of the event, and the lake has no earlier one",
    NO_SCHEMA: "the value names no schema of the registry (a zero byte and a schema id, before it)",
    NOT_JSON: "the value isn't the JSON of an event, or a field has another type than its column",
    MISSING_VALUE: "the event hasn't got a value that each one must have",
    TOO_OLD: "it says that it happened longer before it came than its stream's spec allows (event_time.earliest)",
    FUTURE: "it says that it happened later than it came, by more than its stream's spec allows (event_time.latest)",
}


def explain(problem: Column) -> Column:
    """Return the sentence for a problem (``code`` or ``code: detail``), for the people who read dead letters."""
    code, detail = F.split_part(problem, F.lit(": "), F.lit(1)), F.regexp_extract(problem, "^[a-z_]+: (.*)$", 1)
    sentences = F.create_map(*[F.lit(text) for pair in EXPLANATIONS.items() for text in pair])
    return F.concat(
        F.coalesce(sentences[code], code), F.when(detail != "", F.concat(F.lit(": "), detail)).otherwise("")
    )


def any_unavailable(shape: TableShape) -> Column:
    """Return whether a change row lacks an unchanged value."""
    return reduce(Column.__or__, [F.col("unavailable").getField(c.name) for c in shape.toastable], F.lit(False))


def schema_problem(identifier: Column, rejected: Mapping[int, str]) -> Column:
    """Return the problem with a record's schema id (see :func:`pipelines.kafka.wire.schema_id`); null: there is none.

    ``rejected``: schema id to the problem with every record that has it.
    """
    problem = F.when(identifier.isNull(), F.lit(NOT_AVRO))
    for rejected_id, why in sorted(rejected.items()):
        problem = problem.when(identifier == F.lit(id_bytes(rejected_id)), F.lit(why))
    return problem
