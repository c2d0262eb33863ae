"""The kinds of source there are: the one place outside a kind's own room that knows them by name.

A kind's modules are imported when they are needed: services have no use for Spark, nor the mirror for a database's
client.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipelines.settings import MirrorSettings
    from pipelines.sources.base.capture import ConnectorOptions, SourceAdministrator
    from pipelines.sources.base.database import SourceAddress, SourceDatabase, SourceEvents, SourceTopics
    from pipelines.sources.base.source import StreamSource


def stream_source(settings: "MirrorSettings") -> "StreamSource":
    """Return the source that the mirror reads, as a stream of topics."""
    from pipelines.sources.postgres.stream import stream

    return stream(settings)


def source_database(address: "SourceAddress") -> "SourceDatabase":
    """Return a source's database, as services read it."""
    from pipelines.sources.postgres.database import PostgresDatabase

    return PostgresDatabase(address)


def rereads_wait(address: "SourceAddress") -> bool:
    """Return whether tables of the source changed without events and wait to be looked after. Raises SourceError.

    For a process that does nothing else: it needs few libraries.
    """
    from pipelines.sources.postgres.signals import rereads_wait as wait

    return wait(address)


def source_administrator(address: "SourceAddress", options: "ConnectorOptions") -> "SourceAdministrator":
    """Return a source's database, as capture prepares it. ``address``: with an administrator's user."""
    from pipelines.sources.postgres.administrator import PostgresAdministrator

    return PostgresAdministrator(address, options)


def preparation_sql(schemas: Iterable[str], *, password: str, owner: str) -> str:
    """Return the SQL that prepares a source, for an administrator to run by hand.

    ``password``: of the role that the connector has; ``owner``: the role that may see what capture keeps.
    """
    from pipelines.sources.postgres.capture import prepare_sql

    return prepare_sql(schemas, password=password, owner=owner)


def source_topics(name: str, schemas: tuple[str, ...]) -> "SourceTopics":
    """Return the names of a source's topics. ``name``: the source's; ``schemas``: those that are captured."""
    from pipelines.sources.debezium.topics import DebeziumTopics
    from pipelines.sources.postgres.capture import NOTIFICATIONS, SCHEMA_CHANGES

    return DebeziumTopics(name, schemas, SCHEMA_CHANGES, NOTIFICATIONS)


def source_events() -> "SourceEvents":
    """Return what the source's change events say, for who reads them without Spark."""
    from pipelines.sources.postgres.events import PostgresEvents

    return PostgresEvents()
