"""The settings of publishing."""

from pydantic import Field

from pipelines.settings import MirrorSettings


class PublishSettings(MirrorSettings):
    """The mirror's settings, and those of publishing.

    ``publish_seconds``: between two looks at the tables; ``published``: below which the datasets are.
    """

    publish_seconds: float = Field(default=30, gt=0)
    published: str
