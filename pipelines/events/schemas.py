"""The schemas that a stream's records name: those of the registry that were met, and what they make of the table."""

from collections.abc import Iterable, Sequence

from pipelines.errors import StopPipeline, UnknownSchema
from pipelines.events.changes import type_changes
from pipelines.events.columns import Column, NoColumns, avro_columns, json_columns, merged, parsed, spec_columns
from pipelines.events.decode import StreamSchema
from pipelines.kafka.registry import SchemaLookup
from pipelines.sources.base.change_rows import UNKNOWN_SCHEMA, WITHHELD
from pipelines.specs.events import EventSpec


class StreamSchemas:
    """What is known of a stream's schemas. Used by one thread at a time."""

    def __init__(self, spec: EventSpec, registry: SchemaLookup) -> None:
        self._spec, self._registry = spec, registry
        self._own = self._by_spec()
        self._writers: dict[int, tuple[str, tuple[Column, ...]]] = {}
        self._rejected: dict[int, str] = {}

    def _by_spec(self) -> tuple[Column, ...] | None:
        try:
            return spec_columns(self._spec)
        except NoColumns as error:
            raise StopPipeline(f"{self._spec.table} can't be had as its spec says: {error}. Mend the spec.") from None

    def current(self, has: Sequence[Column]) -> StreamSchema | None:
        """Return how records are read, as far as schemas were met; None: none was.

        ``has``: the columns of the table, if it is there. Raises RetryBatch, StopPipeline.
        """
        if self._own is not None:
            return StreamSchema(self._own, {}, {})
        columns = tuple(has)
        # Identifiers rise: what was registered last says which values are required.
        for identifier, (_, written) in sorted(self._writers.items()):
            if told := self._conflicts(columns, written):
                self._refuse(identifier, told)
                continue
            columns = merged(columns, written)
        known = self._writers or self._rejected
        return StreamSchema(columns, dict(self._writers), dict(self._rejected)) if known and columns else None

    def begin(self, named: Iterable[int]) -> bool:
        """Meet the schemas that the first records name, or else the registry's newest; return whether there is one.

        Otherwise a schema that no record names yet changes nothing. Raises RetryBatch.
        """
        if self.meet(named):
            return True
        newest = self._registry.newest(self._spec.registry_subject)
        return newest is not None and self.meet([newest])

    def _conflicts(self, columns: Sequence[Column], written: Sequence[Column]) -> str:
        """Return in which of its types a schema differs from what came before it; empty: in none."""
        known = {column.name: column.iceberg for column in columns}
        changes = [each for c in written for each in type_changes(c.name, known.get(c.name), c.iceberg)]
        return ", ".join(str(change) for change in changes if change.kind == "change")

    def _refuse(self, identifier: int, told: str) -> None:
        if self._spec.schema_changes.change == "freeze":
            raise StopPipeline(
                f"{self._spec.table} doesn't follow schema {identifier}: {told}. Undo it in the registry, give the"
                " field another name, or change schema_changes in its spec; it is tried again by itself, and nothing is"
                " lost."
            )
        self.withhold([identifier], told)

    def meet(self, identifiers: Iterable[int]) -> bool:
        """Look schemas up that records name, and return whether one of them says something new. Raises RetryBatch."""
        fresh = [each for each in identifiers if each not in self._writers and each not in self._rejected]
        for identifier in fresh:
            try:
                text = self._registry.schema(identifier)
                schema = parsed(text)
                columns = json_columns(schema) if self._spec.format == "json" else avro_columns(schema)
            except UnknownSchema:
                # It may be registered yet, and is looked up again then.
                continue
            except NoColumns as error:
                self._rejected[identifier] = f"{UNKNOWN_SCHEMA}: {error}"
                continue
            self._writers[identifier] = (text, columns)
        return any(each in self._writers or each in self._rejected for each in fresh)

    def withhold(self, identifiers: Iterable[int], why: str) -> None:
        """Have records that name these schemas be dead letters: the table doesn't follow them."""
        for identifier in identifiers:
            self._writers.pop(identifier, None)
            self._rejected[identifier] = f"{WITHHELD}: {why}"
