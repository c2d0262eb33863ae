"""A topic that isn't any more the one of which a table's positions are: its offsets begin anew, and mean other records.

That is so once Kafka was lost, somebody deleted the topic, or Kafka was restored to an earlier state. To go on by the
old positions would pass over what the topic has now, in silence. So a table is held until a person has said that it
shall begin anew; then what is known of older offsets is voided, and everything that the topic has is news.
"""

from pyspark.sql import SparkSession

from pipelines.errors import StopPipeline
from pipelines.kafka.ranges import Positions
from pipelines.lake.table import LakeTable
from pipelines.ledger.entries import Ledger

# Of a row or a letter whose topic is gone.
VOID = -1


def renewal(ledger: Ledger, topic_id: str, ends: Positions) -> str | None:
    """Say why a topic with this identity, which ends there, isn't the one of the ledger; None: it is.

    An older ledger doesn't say of which topic it is.
    """
    if not ledger.positions:
        return None
    if ledger.topic_id is not None and ledger.topic_id != topic_id:
        return "was deleted and made anew"
    beyond = {p: (position, ends[p]) for p, position in ledger.positions.items() if p in ends and position > ends[p]}
    if beyond:
        partition, (position, end) = min(beyond.items())
        return f"ends at {end} in partition {partition}, before {position}, up to which it was read"
    return None


def refuse(topic: str, why: str, command: str) -> StopPipeline:
    """Return the error by which a table is held whose topic was renewed. ``command``: what a person shall run."""
    return StopPipeline(
        f"{topic} isn't the topic any more that the table was filled from: it {why}. By its old positions what it has"
        f" now would be passed over. Nothing was skipped or merged. Run `{command}` (infra/runbooks/kafka-lost.md)."
    )


def void_rows(session: SparkSession, table: LakeTable) -> None:
    """Mark every row as written by a record of a topic that is gone. Repeatable."""
    session.sql(
        f"UPDATE {table.sql_name} SET _kafka_partition = 0, _kafka_offset = {VOID} WHERE _kafka_offset <> {VOID}"
    )
