"""Schemas by id from the schema registry. A schema never changes once it has an id, so each is fetched once."""

import json
from functools import lru_cache
from typing import Any, Protocol

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from httpx import Client, HTTPError

from pipelines.errors import RetryBatch, UnknownSchema

# The registry's answer where it holds something that it can't read itself.
UNREADABLE = 400
UNKNOWN = (UNREADABLE, 404)
# Where Apicurio has a schema as it was registered, beside its Confluent API.
AS_REGISTERED = "/apis/registry/v3/ids/contentIds/"
NUMBERS = ("int", "long", "float", "double")
# The client's own default is to wait for ever.
ANSWER_SECONDS = 30


class SchemaLookup(Protocol):
    """Whatever knows Avro schemas by their ids."""

    def schema(self, schema_id: int, /) -> str:
        """Return the schema of this id, as JSON text. Raises UnknownSchema, or RetryBatch without an answer."""
        ...

    def newest(self, subject: str, /) -> int | None:
        """Return the id of a subject's newest schema; None: it has none. Raises RetryBatch without an answer."""
        ...


class SchemaRegistry:
    """A registry with a Confluent-compatible API."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = SchemaRegistryClient({"url": url, "timeout": ANSWER_SECONDS})
        self._native = Client(base_url=url.partition("/apis/")[0], timeout=ANSWER_SECONDS)
        self.schema = lru_cache(maxsize=4096)(self._fetch)

    def _fetch(self, schema_id: int) -> str:
        """Return the Avro schema of this id, as JSON text. Raises UnknownSchema, or RetryBatch without an answer."""
        try:
            return str(self._client.get_schema(schema_id).schema_str)
        except SchemaRegistryError as error:
            text = self._as_registered(schema_id) if error.http_status_code == UNREADABLE else None
            if text is not None:
                return text
            if error.http_status_code in UNKNOWN:
                raise UnknownSchema(f"schema id {schema_id} is not in the registry at {self._url}: {error}") from error
            raise RetryBatch(f"the registry at {self._url} failed for schema id {schema_id}: {error}") from error
        except HTTPError as error:
            raise RetryBatch(f"the registry at {self._url} doesn't answer: {error}") from error

    def newest(self, subject: str) -> int | None:
        """Return the id of a subject's newest schema; None: it has none. Raises RetryBatch without an answer."""
        try:
            return self._client.get_latest_version(subject).schema_id
        except SchemaRegistryError as error:
            if error.http_status_code in UNKNOWN:
                return None
            raise RetryBatch(f"the registry at {self._url} failed for {subject}: {error}") from error
        except HTTPError as error:
            raise RetryBatch(f"the registry at {self._url} doesn't answer: {error}") from error

    def _as_registered(self, schema_id: int) -> str | None:
        """Return a schema that the registry can't read itself because of its defaults; None: it isn't one."""
        answer = self._native.get(f"{AS_REGISTERED}{schema_id}")
        try:
            schema = json.loads(answer.text) if answer.is_success else None
        except ValueError:
            return None
        return json.dumps(with_valid_defaults(schema)) if isinstance(schema, dict) else None


def with_valid_defaults(schema: Any) -> Any:
    """Return an Avro schema in which a number's default is a number.

    JSON has no NaN and no infinities: Connect's converter writes such a default as text, which isn't valid Avro. To
    decode what was written by the schema needs no default, only that it is one (a zero).
    """
    if isinstance(schema, list):
        return [with_valid_defaults(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    valid = {key: with_valid_defaults(value) for key, value in schema.items()}
    if isinstance(valid.get("default"), str) and _first_branch(valid.get("type")) in NUMBERS:
        valid["default"] = 0
    return valid


def _first_branch(kind: Any) -> Any:
    """Return the name of the type that a field's default is of."""
    branch = kind[0] if isinstance(kind, list) else kind
    return branch.get("type") if isinstance(branch, dict) else branch
