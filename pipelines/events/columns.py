"""The columns of a stream, by the schemas that its records are written by. Pure."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.schema.lake_types import list_of, map_of, struct_of
from pipelines.specs.events import EventSpec

PRIMITIVES = ("boolean", "int", "long", "float", "double", "date", "timestamp", "timestamptz", "string", "binary")
_DECIMAL = re.compile(r"decimal\(\d+,\s*\d+\)")
_JSON = {"integer": "long", "number": "double", "boolean": "boolean"}
_JSON_TEXT = {"date-time": "timestamptz", "date": "date"}
_AVRO = {
    "boolean": "boolean", "int": "int", "long": "long", "float": "float", "double": "double", "string": "string",
    "bytes": "binary", "fixed": "binary", "enum": "string",
}  # fmt: skip
_AVRO_LOGICAL = {
    "date": "date", "timestamp-millis": "timestamptz", "timestamp-micros": "timestamptz",
    "local-timestamp-millis": "timestamp", "local-timestamp-micros": "timestamp",
}  # fmt: skip


class NoColumns(ValueError):
    """A schema has no columns that the lake can hold. The message says where in it, and why."""


@dataclass(frozen=True)
class Column:
    """A column of a stream. ``iceberg``: its type in Iceberg's JSON form, not numbered; ``required``: of each event."""

    name: str
    iceberg: Any
    required: bool = False


def spec_columns(spec: EventSpec) -> tuple[Column, ...] | None:
    """Return the columns that the spec itself says; None: the registry does. Raises NoColumns."""
    if spec.columns is not None:
        return tuple(Column(name, _written(name, kind)) for name, kind in spec.columns.items())
    return json_columns(spec.json_schema) if spec.json_schema is not None else None


def _written(name: str, text: str) -> Any:
    kind = text.strip()
    if kind.startswith("list<") and kind.endswith(">"):
        return list_of(_written(name, kind[5:-1]))
    if kind not in PRIMITIVES and not _DECIMAL.fullmatch(kind):
        raise NoColumns(f"{name} is {text!r}, none of {', '.join(PRIMITIVES)}, decimal(p, s) or a list<…> of these")
    return kind


def json_columns(schema: Any) -> tuple[Column, ...]:
    """Return the columns of a JSON Schema's object. Raises NoColumns."""
    return tuple(_of_object(_resolve(schema, schema, "the schema"), schema, ""))


def avro_columns(schema: Any) -> tuple[Column, ...]:
    """Return the columns of an Avro record. Raises NoColumns."""
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise NoColumns("the Avro schema is of no record")
    names: dict[str, Any] = {}
    return tuple(
        Column(field["name"], kind, required)
        for field in schema["fields"]
        for kind, required in [_avro_type(field["type"], names, field["name"])]
    )


def parsed(text: str) -> Any:
    """Return a schema's text parsed. Raises NoColumns."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise NoColumns(f"the schema is no JSON: {error}") from None


def merged(older: Sequence[Column], newer: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns that both have: those of ``newer``, then what only ``older`` has, which nobody requires.

    Where a type differs it is that of ``newer``; within structs the same holds.
    """
    known = {column.name: column for column in older}
    columns = [
        Column(c.name, _merged_type(known[c.name].iceberg, c.iceberg), c.required) if c.name in known else c
        for c in newer
    ]
    names = {column.name for column in columns}
    return (*columns, *(Column(c.name, c.iceberg) for c in older if c.name not in names))


def _merged_type(older: Any, newer: Any) -> Any:
    if not (isinstance(older, Mapping) and isinstance(newer, Mapping) and older["type"] == newer["type"]):
        return newer
    if newer["type"] == "list":
        return list_of(_merged_type(older["element"], newer["element"]))
    if newer["type"] == "map":
        return map_of(_merged_type(older["value"], newer["value"]))
    was = {field["name"]: field["type"] for field in older["fields"]}
    fields = {
        field["name"]: _merged_type(was[field["name"]], field["type"]) if field["name"] in was else field["type"]
        for field in newer["fields"]
    }
    return struct_of({**fields, **{name: kind for name, kind in was.items() if name not in fields}})


def _of_object(schema: Mapping[str, Any], root: Any, where: str) -> Iterator[Column]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        raise NoColumns(f"{where or 'the schema'} is no object with properties")
    required = set(schema.get("required", ()))
    for name, kind in properties.items():
        place = f"{where}.{name}" if where else name
        found, nullable = _json_type(kind, root, place)
        yield Column(name, found, name in required and not nullable)


def _json_type(schema: Any, root: Any, where: str) -> tuple[Any, bool]:
    """Return the type that a JSON Schema's values have, and whether null is one of them."""
    schema, nullable = _one_of(_resolve(schema, root, where), root, where)
    kind = schema.get("type")
    if isinstance(kind, Sequence) and not isinstance(kind, str):
        nullable, kinds = nullable or "null" in kind, [each for each in kind if each != "null"]
        if sorted(kinds) == ["integer", "number"]:
            kinds = ["number"]
        if len(kinds) != 1:
            raise NoColumns(f"{where} is of several types ({', '.join(kinds) or 'null alone'}), and a column has one")
        kind = kinds[0]
    if kind == "string" or (kind is None and _are_texts(schema.get("enum", schema.get("const")))):
        return "binary" if schema.get("contentEncoding") == "base64" else _JSON_TEXT.get(
            schema.get("format"), "string"
        ), nullable
    if kind in _JSON:
        return _JSON[kind], nullable
    if kind == "array":
        if not isinstance(schema.get("items"), Mapping):
            raise NoColumns(f"{where} is an array whose items have no schema")
        return list_of(_json_type(schema["items"], root, f"{where}[]")[0]), nullable
    if kind == "object" or "properties" in schema:
        if schema.get("properties"):
            return struct_of({c.name: c.iceberg for c in _of_object(schema, root, where)}), nullable
        if isinstance(schema.get("additionalProperties"), Mapping):
            return map_of(_json_type(schema["additionalProperties"], root, f"{where}.*")[0]), nullable
        # Nothing is known of it: its JSON, as it came.
        return "string", nullable
    raise NoColumns(f"{where} has no type that a column can have ({json.dumps(schema)[:80]})")


def _one_of(schema: Mapping[str, Any], root: Any, where: str) -> tuple[Mapping[str, Any], bool]:
    """Return the one branch that isn't null, of a schema with branches."""
    for word in ("oneOf", "anyOf"):
        if word in schema:
            branches = [_resolve(each, root, where) for each in schema[word]]
            others = [each for each in branches if each.get("type") != "null"]
            if len(others) != 1:
                raise NoColumns(f"{where} may be one of {len(others)} things ({word}), and a column is of one type")
            return others[0], len(others) < len(branches)
    return schema, False


def _resolve(schema: Any, root: Any, where: str) -> Mapping[str, Any]:
    seen: list[str] = []
    while isinstance(schema, Mapping) and "$ref" in schema:
        reference = str(schema["$ref"])
        if not reference.startswith("#/") or reference in seen:
            raise NoColumns(f"{where} refers to {reference}, which isn't in the schema itself")
        seen.append(reference)
        schema = root
        for part in reference[2:].split("/"):
            schema = schema.get(part) if isinstance(schema, Mapping) else None
    if not isinstance(schema, Mapping):
        raise NoColumns(f"{where} has no schema")
    return schema


def _are_texts(values: Any) -> bool:
    values = [values] if isinstance(values, str) else values
    return isinstance(values, list) and bool(values) and all(isinstance(each, str) for each in values)


def _avro_type(schema: Any, names: dict[str, Any], where: str) -> tuple[Any, bool]:
    """Return the type that values of an Avro schema have, and whether they are required."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if len(others) != 1:
            raise NoColumns(f"{where} is a union of {len(others)} types, and a column has one")
        return _avro_type(others[0], names, where)[0], len(others) == len(schema)
    if isinstance(schema, str):
        if schema in names:
            return names[schema], True
        if schema not in _AVRO:
            raise NoColumns(f"{where} is of the unknown type {schema}")
        return _AVRO[schema], True
    found = _avro_complex(schema, names, where)
    for name in _full_names(schema):
        names[name] = found
    return found, True


def _avro_complex(schema: Mapping[str, Any], names: dict[str, Any], where: str) -> Any:
    kind, logical = schema["type"], schema.get("logicalType")
    if logical in _AVRO_LOGICAL:
        return _AVRO_LOGICAL[logical]
    if logical == "decimal":
        return f"decimal({schema['precision']}, {schema.get('scale', 0)})"
    if kind == "record":
        fields: Iterable[Mapping[str, Any]] = schema["fields"]
        return struct_of({f["name"]: _avro_type(f["type"], names, f"{where}.{f['name']}")[0] for f in fields})
    if kind == "array":
        return list_of(_avro_type(schema["items"], names, f"{where}[]")[0])
    if kind == "map":
        return map_of(_avro_type(schema["values"], names, f"{where}.*")[0])
    return _avro_type(kind, names, where)[0]


def _full_names(schema: Mapping[str, Any]) -> list[str]:
    name = schema.get("name")
    return [] if name is None else [name, *([f"{schema['namespace']}.{name}"] if "namespace" in schema else [])]
