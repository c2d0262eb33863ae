"""Load the specs of tables, in YAML files beside the code. Read once, when a process starts."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipelines.errors import PipelineError
from pipelines.specs.derived import Announce, DerivedSpec, Input, Window
from pipelines.specs.events import Deduplicate, EventSpec, EventTime
from pipelines.specs.layout import Layout
from pipelines.specs.upkeep import Alerts, Upkeep

DIRECTORY = Path(__file__).parent
DEFAULTS = "defaults.yaml"

Policy = Literal["evolve", "freeze", "discard_row", "discard_value"]
KeyPolicy = Literal["evolve", "freeze"]
Freshness = Annotated[float, Field(ge=1, le=3600)]
Model = TypeVar("Model", bound=BaseModel)


class SpecError(PipelineError):
    """A spec file can't be used. The message names the file, what is wrong in it and what could be meant."""


class SchemaPolicy(BaseModel):
    """The policy for each kind of change of a source table's schema."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    add: Policy = "evolve"
    drop: Policy = "evolve"
    rename: Policy = "evolve"
    widen: Policy = "evolve"
    change: Policy = "evolve"
    key: KeyPolicy = "evolve"


class TableSpec(BaseModel):
    """The spec of one table, from its file. ``table`` is ``schema.table``, as the source has it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["mirror"] = "mirror"
    table: str
    freshness_seconds: Freshness | None = None
    layout: Layout = Layout()
    schema_changes: SchemaPolicy = SchemaPolicy()
    upkeep: Upkeep = Upkeep()
    alerts: Alerts = Alerts()


class Defaults(BaseModel):
    """The defaults, for every table whose own file doesn't say otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_changes: SchemaPolicy = SchemaPolicy()
    upkeep: Upkeep = Upkeep()
    alerts: Alerts = Alerts()
    freshness_seconds: Freshness = 5.0


NO_STREAMS: Mapping[str, EventSpec] = {}
NO_DERIVED: Mapping[str, DerivedSpec] = {}
AnySpec = TableSpec | EventSpec | DerivedSpec
KINDS: Mapping[str, type[AnySpec]] = {"mirror": TableSpec, "events": EventSpec, "derived": DerivedSpec}


class Specs:
    """The specs of all tables. ``streams``, ``derived``: of event streams and derived tables, by their tables."""

    def __init__(
        self, defaults: Defaults, tables: Mapping[str, TableSpec], streams: Mapping[str, EventSpec] = NO_STREAMS,
        derived: Mapping[str, DerivedSpec] = NO_DERIVED,
    ) -> None:  # fmt: skip
        self._defaults, self._tables, self.streams, self.derived = defaults, tables, streams, derived

    def schema_policy(self, schema: str, name: str) -> SchemaPolicy:
        """Return a table's policy: its own words, and the defaults where it has none."""
        return _merged(self._defaults.schema_changes, self._spec(schema, name).schema_changes)

    @property
    def default_upkeep(self) -> Upkeep:
        """The upkeep of tables whose spec doesn't say otherwise."""
        return self._defaults.upkeep

    def upkeep(self, schema: str, name: str) -> Upkeep:
        """Return a table's upkeep, and the defaults where it has none."""
        return _merged(self._defaults.upkeep, self._any(schema, name).upkeep)

    def alerts(self, schema: str, name: str) -> Alerts:
        """Return when a table is unhealthy, and the defaults where it doesn't say."""
        return _merged(self._defaults.alerts, self._any(schema, name).alerts)

    def freshness(self, schema: str, name: str) -> float:
        """Return how old what readers see of a table may be, at most, while the mirror keeps up: seconds."""
        return self._any(schema, name).freshness_seconds or self._defaults.freshness_seconds

    def layout(self, schema: str, name: str) -> Layout:
        """Return how a table is to be partitioned and sorted, where its file says so."""
        return self._any(schema, name).layout

    @property
    def default_freshness(self) -> float:
        """Freshness in seconds for tables without a spec file."""
        return self._defaults.freshness_seconds

    def _spec(self, schema: str, name: str) -> TableSpec:
        """Return the spec of a mirrored table, an empty one where there is none."""
        called = f"{schema}.{name}"
        return self._tables.get(called) or TableSpec(table=called)

    def _any(self, schema: str, name: str) -> AnySpec:
        """Return the spec of a table, of whatever kind; all but mirrored ones are called as the lake calls them."""
        called = f"{schema}.{name}"
        return self.streams.get(called) or self.derived.get(called) or self._spec(schema, name)


def _merged(defaults: Model, own: Model) -> Model:
    return defaults.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})


def load_specs(directory: Path = DIRECTORY) -> Specs:
    """Load every spec in ``directory``. Raises SpecError."""
    defaults = Defaults()
    tables: dict[str, TableSpec] = {}
    streams: dict[str, EventSpec] = {}
    derived: dict[str, DerivedSpec] = {}
    files: dict[str, Path] = {}
    for path in sorted(directory.glob("*.yaml")):
        data = _read(path)
        if path.name == DEFAULTS:
            defaults = _valid(path, Defaults, data)
            continue
        spec = _valid(path, _kind(path, data), data)
        if spec.table in files:
            raise SpecError(f"{path}: {spec.table} has a spec already, {files[spec.table]}. Keep one of the two.")
        files[spec.table] = path
        if isinstance(spec, EventSpec):
            streams[spec.table] = spec
        elif isinstance(spec, DerivedSpec):
            derived[spec.table] = spec
        else:
            tables[spec.table] = spec
    for spec in derived.values():
        _check_circle(files[spec.table], spec, derived)
    return Specs(defaults, tables, streams, derived)


def load_spec(path: Path) -> AnySpec:
    """Load one spec from a file, wherever it is. Raises SpecError."""
    data = _read(path)
    return _valid(path, _kind(path, data), data)


def _check_circle(path: Path, spec: DerivedSpec, derived: Mapping[str, DerivedSpec]) -> None:
    """Raise SpecError where a derived table is made of itself, by way of others."""
    reached: list[str] = []
    left = [each.table for each in spec.inputs.values()]
    while left:
        name = left.pop()
        if name == spec.table:
            raise SpecError(f"{path}: {spec.table} is made of itself, by way of {', '.join(reached)}")
        if name in derived and name not in reached:
            reached.append(name)
            left += [each.table for each in derived[name].inputs.values()]


def _kind(path: Path, data: Any) -> type[AnySpec]:
    """Return the model of the spec's kind. Raises SpecError."""
    kind = data.get("kind", "mirror") if isinstance(data, Mapping) else "mirror"
    if kind not in KINDS:
        raise SpecError(f"{path}: kind is {kind!r}, not one of {', '.join(KINDS)}")
    return KINDS[kind]


def _read(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SpecError(f"{path} can't be read: {error}") from error


def _valid(path: Path, model: type[Model], data: Any) -> Model:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise SpecError(f"{path}: {'; '.join(_complaints(error))}") from None


def _complaints(error: ValidationError) -> Iterator[str]:
    for found in error.errors():
        where = ".".join(str(part) for part in found["loc"]) or "the file"
        if found["type"] == "extra_forbidden":
            models = (
                TableSpec, Defaults, Layout, SchemaPolicy, Upkeep, Alerts, EventSpec, EventTime, Deduplicate,
                DerivedSpec, Input, Window, Announce,
            )  # fmt: skip
            known = [name for model in models for name in model.model_fields]
            yield f"unknown key {where}{_suggestion(str(found['loc'][-1]), known)}"
        elif found["type"] == "literal_error":
            expected = found["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
            yield f"{where} is {found['input']!r}, not one of {expected}"
        else:
            yield f"{where}: {found['msg']}"


def _suggestion(word: str, known: list[str]) -> str:
    near = get_close_matches(word, known, 1)
    return f" (is {near[0]} meant?)" if near else f" (known: {', '.join(known)})"
