"""Admit: which change rows go on, and which become dead letters. (What a table's contract says of them is asked by
:mod:`pipelines.changes.enforce`.)
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

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


def admit(changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    """``changes`` with ``problem`` set as well on rows that can't be keyed: a null in the key, or in a table without a
    key (``keys`` is empty) no old row where an existing one is changed.
    """
    row = F.col("row")
    operation = F.col("op")
    if keys:
        missing = F.lit(False)
        for key in keys:
            missing = missing | row.getField(key).isNull()
        unkeyed = (operation != TRUNCATE) & missing
    else:
        unkeyed = operation.isin("u", "d") & F.col("before").isNull()
    problem = (
        F.when(F.col("problem").isNotNull(), F.col("problem"))
        .when(~operation.isin(*OPERATIONS), F.lit(UNKNOWN_OPERATION))
        .when(unkeyed, F.lit(NO_KEY))
    )
    return changes.withColumn("problem", problem)


def park(changes: DataFrame, waiting: DataFrame) -> DataFrame:
    """``changes`` with ``problem`` set as well on the rows that ``waiting`` names by ``partition`` and ``offset``."""
    named = F.broadcast(waiting.withColumn("waits", F.lit(True)))
    joined = changes.join(named, ["partition", "offset"], "left")
    problem = F.coalesce("problem", F.when(F.col("waits"), F.lit(PARKED)))
    return joined.withColumn("problem", problem).select(*changes.columns)


def explain(problem: Column) -> Column:
    """The sentence for a problem (``code`` or ``code: detail``), for the people who read dead letters."""
    code, detail = F.split_part(problem, F.lit(": "), F.lit(1)), F.regexp_extract(problem, "^[a-z_]+: (.*)$", 1)
    sentences = F.create_map(*[F.lit(text) for pair in EXPLANATIONS.items() for text in pair])
    return F.concat(
        F.coalesce(sentences[code], code), F.when(detail != "", F.concat(F.lit(": "), detail)).otherwise("")
    )
