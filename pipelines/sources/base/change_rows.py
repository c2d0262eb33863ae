"""The contract of a change row: its operations, its problems, and what can be asked of it."""

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.schema.columns import TableShape

DELETE, UPSERT = "d", "u"


CREATES = ("c", "r")


NO_KEY = "no_key"


TRUNCATE = "t"


OPERATIONS = ("c", "r", "u", "d", TRUNCATE)


UNKNOWN_OPERATION = "unknown_operation"


UNAVAILABLE = "unavailable_value"


PARKED = "parked"


WITHHELD = "schema_withheld"


UNKNOWN_ROW = "unknown_row"


BROKEN = "rule_broken"


# The column with what each promise of a contract has found (see pipelines.changes.enforce).
FOUND_BROKEN = "broken"


EXPLANATIONS = {
    "not_avro": "the value isn't in Confluent's wire format (a zero byte, a schema id, Avro)",
    "unknown_schema": "the schema registry has no schema of this id, or none that it can read",
    "foreign_schema": "the schema isn't that of a change event of this topic's table",
    "foreign_table": "the event is one of another table than this topic's",
    "unsupported_type": "a column has a type which the lake can't hold yet",
    "undecodable": "the bytes don't decode with the schema they name, or hold no row",
    "unrepresentable_value": "a value is outside what the lake's type can hold",
    NO_KEY: "a change of an existing row needs its key, or the whole old row (REPLICA IDENTITY FULL) where the table"
    " has none, and the event hasn't got it",
    UNKNOWN_OPERATION: "the operation isn't one of Debezium's",
    PARKED: "an earlier event of its key is a dead letter, behind which it waits",
    WITHHELD: "the row needs a change of the schema which the table's spec doesn't let it follow (discard_row)",
    BROKEN: "the row breaks what its table's contract promises, and the contract says to reject it",
    UNKNOWN_ROW: "the table has no key, and no row of the lake equals the one that the event changes or deletes",
    UNAVAILABLE: "an unchanged value was left out of the event, and the lake has no earlier one",
}


def explain(problem: Column) -> Column:
    """The sentence for a problem (``code`` or ``code: detail``), for the people who read dead letters."""
    code, detail = F.split_part(problem, F.lit(": "), F.lit(1)), F.regexp_extract(problem, "^[a-z_]+: (.*)$", 1)
    sentences = F.create_map(*[F.lit(text) for pair in EXPLANATIONS.items() for text in pair])
    return F.concat(
        F.coalesce(sentences[code], code), F.when(detail != "", F.concat(F.lit(": "), detail)).otherwise("")
    )


NOT_AVRO = "not_avro"


UNKNOWN_SCHEMA = "unknown_schema"


UNDECODABLE = "undecodable"


FOREIGN_TABLE = "foreign_table"


UNREPRESENTABLE = "unrepresentable_value"


def any_unavailable(shape: TableShape) -> Column:
    """Whether a change row lacks an unchanged value."""
    return reduce(Column.__or__, [F.col("unavailable").getField(c.name) for c in shape.toastable], F.lit(False))
