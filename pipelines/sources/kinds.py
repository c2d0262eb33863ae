"""The kinds of source there are: the one place outside a kind's own room that knows them by name."""

from pipelines.settings import MirrorSettings
from pipelines.sources.base.source import StreamSource
from pipelines.sources.postgres.stream import stream as postgres_stream


def stream_source(settings: MirrorSettings) -> StreamSource:
    """Return the source that the mirror reads, as a stream of topics."""
    return postgres_stream(settings)
