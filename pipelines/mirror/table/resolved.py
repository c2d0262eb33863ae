"""A batch whose schema is resolved: what its table shall have for it."""

from dataclasses import dataclass

from pipelines.changes.topic_batch import TopicBatch
from pipelines.schema.columns import TableShape
from pipelines.schema.plan import TargetSchema
from pipelines.schema.versions import TableVersions
from pipelines.sources.base.source import Schemas


@dataclass(frozen=True)
class ResolvedBatch:
    """A batch whose schema is resolved.

    ``target``: what its table shall have, by these ``versions`` of it. ``shape``: its columns in the source's types,
    ``lake_shape``: in the lake's; ``keys``: the key.
    """

    batch: TopicBatch
    schemas: Schemas
    versions: TableVersions
    target: TargetSchema
    shape: TableShape
    lake_shape: TableShape
    keys: tuple[str, ...]

    def same_schema(self, other: "ResolvedBatch") -> bool:
        """Return whether what is found out of both is the same."""
        mine, others = (
            (
                each.schemas, each.versions, each.target, each.shape, each.keys,
                frozenset(each.batch.profile.key_schema_ids),
            )
            for each in (self, other)
        )  # fmt: skip
        return mine == others
