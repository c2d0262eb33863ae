"""ODCS: contract files, read and checked against the standard's own schema, as its publisher packages it.

Files are read as people write them: dates and versions without quotes are texts, and a column whose physical type says
what it is needs no logical one.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft201909Validator
from jsonschema.exceptions import ValidationError, best_match
from open_data_contract_standard.model import OpenDataContractStandard

from quality.checks import BOUNDS
from quality.contract import Contract, contract_of
from quality.errors import ContractError

DIRECTORY = Path(__file__).parent / "contracts"
SUFFIXES = (".yaml", ".yml")
UNSUPPORTED = ("0.", "1.", "2.")
# What a physical type begins with, whichever database's it is, and the standard's word for such values. Longer ones
# that begin alike come first.
LOGICAL = (
    ("interval", "string"), ("int", "integer"), ("bigint", "integer"), ("smallint", "integer"), ("tinyint", "integer"),
    ("serial", "integer"), ("bigserial", "integer"), ("smallserial", "integer"), ("long", "integer"),
    ("numeric", "number"), ("decimal", "number"), ("number", "number"), ("real", "number"), ("double", "number"),
    ("float", "number"), ("bool", "boolean"), ("datetime", "timestamp"), ("date", "date"), ("timestamp", "timestamp"),
    ("time", "time"), ("struct", "object"), ("map", "object"),
)  # fmt: skip
# Texts that look like numbers: 1.10 isn't 1.1.
TEXTS = ("version", "apiVersion", "id")


class _Loader(yaml.SafeLoader):
    """YAML in which dates are texts, and versions too."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a map, with the texts that it has."""
        for key, value in node.value:
            if key.value in TEXTS and isinstance(value, yaml.ScalarNode) and value.tag in NUMBERS:
                value.tag = "tag:yaml.org,2002:str"
        return super().construct_mapping(node, deep)


NUMBERS = ("tag:yaml.org,2002:float", "tag:yaml.org,2002:int")
_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load(directory: Path = DIRECTORY) -> dict[tuple[str, str], Contract]:
    """Return table (schema and name) to its contract. Raises ContractError for the first file that can't be used."""
    found: dict[tuple[str, str], Contract] = {}
    files: dict[tuple[str, str], Path] = {}
    for path in files_in(directory):
        contract = read(path)
        if contract.table in files:
            raise ContractError(
                f"{path}: {contract.source_name} has a contract already, {files[contract.table]}. Keep one of the two."
            )
        found[contract.table], files[contract.table] = contract, path
    return found


def files_in(directory: Path) -> Iterator[Path]:
    """Return the contract files of a folder, by name."""
    return (path for path in sorted(directory.glob("*")) if path.suffix in SUFFIXES)


def read(path: Path) -> Contract:
    """Read one file's contract. Raises ContractError."""
    try:
        document = parse(path.read_text(encoding="utf-8"))
        return contract_of(document)
    except (OSError, UnicodeDecodeError) as error:
        raise ContractError(f"{path} can't be read: {error}") from error
    except ContractError as error:
        raise ContractError(f"{path}: {error}") from error


def parse(text: str) -> OpenDataContractStandard:
    """Return a document that the standard's schema allows. Raises ContractError, which names the place in it."""
    try:
        data = yaml.load(text, _Loader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        raise ContractError(f"not YAML: {error}") from error
    if not isinstance(data, Mapping):
        raise ContractError("not a contract: the file has no fields")
    _name_version(data)
    for where, table in _places("schema", data.get("schema")):
        _name_unbounded(where, table)
        for place, column in _places(f"{where}.properties", table.get("properties")):
            _type(place, column)
            _name_unbounded(place, column)
    wrong = best_match(_validator().iter_errors(data))
    if wrong is not None:
        raise ContractError(_complaint(wrong))
    return OpenDataContractStandard.model_validate(data)


def _places(where: str, found: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield where objects of a list are, and the objects; of anything else none."""
    for number, each in enumerate(found if isinstance(found, list) else []):
        if isinstance(each, dict):
            yield f"{where}[{number}]", each


def _name_version(data: Mapping[str, Any]) -> None:
    """Raise ContractError for a major version that has tables elsewhere, though the standard's schema allows it."""
    version = data.get("apiVersion")
    if isinstance(version, str) and version.lstrip("v").startswith(UNSUPPORTED):
        raise ContractError(
            f"apiVersion: {version} isn't supported, only v3: tables are under `schema` there, and not under `dataset`"
        )


def _type(where: str, column: dict[str, Any]) -> None:
    """Give a column the logical type that its physical one has.

    Raises ContractError for one without any type, of which the standard's schema would say that it isn't a map.
    """
    if "logicalType" in column:
        return
    physical = column.get("physicalType")
    if not isinstance(physical, str) or not physical.strip():
        name = column.get("name")
        raise ContractError(f"{where} ({name}): it has no logicalType, nor a physicalType that tells it")
    column["logicalType"] = _logical(physical.strip().lower())


def _logical(physical: str) -> str:
    if physical.endswith("]") or physical.startswith("array"):
        return "array"
    return next((logical for start, logical in LOGICAL if physical.startswith(start)), "string")


def _name_unbounded(where: str, found: Mapping[str, Any]) -> None:
    """Raise ContractError for checks that don't say what a value must be, or say it twice.

    The standard's schema would complain of the metric.
    """
    for place, check in _places(f"{where}.quality", found.get("quality")):
        bounds = [word for word in BOUNDS if word in check]
        if ("metric" in check or "query" in check) and len(bounds) != 1:
            said = f"it says {' and '.join(bounds)}" if bounds else f"what must it be? Say {', '.join(BOUNDS)}"
            raise ContractError(f"{place} ({check.get('name') or check.get('metric')}): {said}")


def _complaint(error: ValidationError) -> str:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path).lstrip(".")
    return f"{place or 'the file'}: {error.message}"


@cache
def _validator() -> Any:
    schema = files("open_data_contract_standard") / "schema.json"
    return Draft201909Validator(json.loads(schema.read_text(encoding="utf-8")))
