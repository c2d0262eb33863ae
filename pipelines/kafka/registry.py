"""Schemas by id from the schema registry. A schema never changes once it has an id, so each is fetched once."""

from functools import lru_cache

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from httpx import HTTPError

from pipelines.errors import RetryBatch, UnknownSchema

# A 400 is the registry's answer where it holds something that it can't read itself.
UNKNOWN = (400, 404)
# The client's own default is to wait for ever.
ANSWER_SECONDS = 30


class SchemaRegistry:
    """A registry with a Confluent-compatible API."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = SchemaRegistryClient({"url": url, "timeout": ANSWER_SECONDS})
        self.schema = lru_cache(maxsize=4096)(self._fetch)

    def _fetch(self, schema_id: int) -> str:
        """The Avro schema of this id, as JSON text. Raises UnknownSchema, or RetryBatch if there is no answer."""
        try:
            return str(self._client.get_schema(schema_id).schema_str)
        except SchemaRegistryError as error:
            if error.http_status_code in UNKNOWN:
                raise UnknownSchema(f"schema id {schema_id} is not in the registry at {self._url}: {error}") from error
            raise RetryBatch(f"the registry at {self._url} failed for schema id {schema_id}: {error}") from error
        except HTTPError as error:
            raise RetryBatch(f"the registry at {self._url} doesn't answer: {error}") from error
