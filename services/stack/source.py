"""The source, as a person who looks at it from outside reaches it."""

from pipelines.sources.base.database import SourceSession, SourceTopics
from pipelines.sources.base.errors import SourceUnavailable
from pipelines.sources.kinds import source_database, source_topics
from services.stack.endpoints import StackSettings
from services.stack.errors import Unreachable


def connect(settings: StackSettings) -> SourceSession:
    """Open a session with the source. Raises Unreachable."""
    try:
        return source_database(settings.source_address).connect()
    except SourceUnavailable as error:
        endpoint = f"{settings.source_db_host}:{settings.source_db_port}"
        raise Unreachable(error.kind, endpoint, error.sentence) from None


def topics_of(settings: StackSettings) -> SourceTopics:
    """Return the names of the source's topics."""
    return source_topics(settings.source_name, settings.schemas)
