"""The needs of a commit: what it turns out to need before it can be made."""

from dataclasses import dataclass

from pipelines.changes.topic_batch import TopicBatch
from pipelines.kafka.ranges import Ranges


@dataclass(frozen=True)
class SchemaNews:
    """The schema log tells of a change of the key, or of another table of the name, which comes first."""


@dataclass(frozen=True)
class FreshLook:
    """The records aren't what was expected: what they hold must be looked at."""


@dataclass(frozen=True)
class MoreRecords:
    """Records of other partitions belong into the same commit as ``batch``: those of ``ranges``.

    ``whole``: with them the batch has all that it may need; else they may lack more in turn.
    """

    batch: TopicBatch
    ranges: Ranges
    whole: bool


Needs = SchemaNews | FreshLook | MoreRecords
