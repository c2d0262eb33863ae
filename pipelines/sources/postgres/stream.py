"""PostgreSQL as a stream of topics."""

from pipelines.kafka.registry import SchemaRegistry
from pipelines.settings import MirrorSettings
from pipelines.sources.debezium.stream import DebeziumStream
from pipelines.sources.postgres.capture import HEARTBEAT_TABLE, SCHEMA_CHANGES
from pipelines.sources.postgres.dialect import POSTGRES
from pipelines.sources.postgres.schema_log import PostgresSchemaLog


def stream(settings: MirrorSettings) -> DebeziumStream:
    """Return the source that the settings name."""
    registry = SchemaRegistry(str(settings.schema_registry_url))
    return DebeziumStream(
        name=settings.source_name,
        captured=settings.schemas,
        dialect=POSTGRES,
        registry=registry,
        schema_log=PostgresSchemaLog(settings.kafka_bootstrap, registry, settings.source_name),
        unavailable_value=settings.unavailable_value,
        heartbeat=HEARTBEAT_TABLE,
        schema_changes=SCHEMA_CHANGES,
    )
