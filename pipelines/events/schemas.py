"""The schemas that a stream's records name: those of the registry that were met, and what they make of the table."""

from collections.abc import Iterable, Sequence

from pipelines.errors import StopPipeline, UnknownSchema
from pipelines.events.changes import StreamChange, type_changes
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
        columns = tuple(has)
        if self._own is not None:
            self._check(self._refused(columns, self._own), "its spec")
            return StreamSchema(self._own, {}, {})
        # Identifiers rise: what was registered last says which values are required.
        for identifier, (_, written) in sorted(self._writers.items()):
            refused = self._refused(columns, written)
            self._check(refused, f"schema {identifier}")
            if refused:
                self._withhold(identifier, refused)
            else:
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

    def _refused(self, columns: Sequence[Column], written: Sequence[Column]) -> list[StreamChange]:
        """Return what a schema would change of ``columns``, and the spec doesn't let it; none: there are no columns."""
        if not columns:
            return []
        known = {column.name: column.iceberg for column in columns}
        changes = [each for c in written for each in type_changes(c.name, known.get(c.name), c.iceberg)]
        return [change for change in changes if self._policy(change) != "evolve"]

    def _policy(self, change: StreamChange) -> str:
        return str(getattr(self._spec.schema_changes, change.kind))

    def _check(self, refused: Sequence[StreamChange], where: str) -> None:
        """Raise StopPipeline where the table is held for one of these changes."""
        # Without an identifier nothing tells the records that need it.
        frozen = [change for change in refused if self._own is not None or self._policy(change) == "freeze"]
        if frozen:
            raise StopPipeline(
                f"{self._spec.table} doesn't follow {where}: {', '.join(map(str, frozen))}. Undo it, give the field"
                " another name, or change schema_changes in its spec; it is tried again by itself, and nothing is lost."
            )

    def _withhold(self, identifier: int, refused: Sequence[StreamChange]) -> None:
        """Have records that name this schema be dead letters: the table doesn't follow it."""
        del self._writers[identifier]
        self._rejected[identifier] = f"{WITHHELD}: {', '.join(map(str, refused))}"

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
