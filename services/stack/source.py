"""The source, as a person who looks at it from outside reaches it."""

from collections.abc import Mapping

from pipelines.sources.base.database import SourceSession, SourceTopics
from pipelines.sources.base.errors import SourceUnavailable
from pipelines.sources.base.tables import SourceTable
from pipelines.sources.kinds import source_database, source_topics
from services.stack.endpoints import StackSettings
from services.stack.errors import CannotVerify, Unreachable


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


def choose(found: list[SourceTable], wanted: set[str], unread: Mapping[str, str]) -> list[SourceTable]:
    """Return the tables that are wanted, by ``table`` or ``schema.table``; if none is, all but the ``unread``.

    Raises CannotVerify.
    """
    if not wanted:
        return [t for t in found if t.full_name not in unread]
    chosen = [t for t in found if t.full_name in wanted or (t.name in wanted and t.schema == "public")]
    unknown = wanted - {t.full_name for t in chosen} - {t.name for t in chosen}
    if unknown:
        known = ", ".join(t.full_name for t in found) or "none"
        raise CannotVerify(f"no captured table is called {', '.join(sorted(unknown))}. Captured: {known}.")
    for name in sorted({t.full_name for t in chosen} & unread.keys()):
        raise CannotVerify(f"{name} isn't mirrored: {unread[name]}.")
    return chosen
