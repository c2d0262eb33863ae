"""What publishing is told."""

from pydantic import Field

from pipelines.settings import MirrorSettings


class PublishSettings(MirrorSettings):
    """``publish_seconds``: between two looks at the tables; ``published``: below which the datasets are."""

    publish_seconds: float = Field(default=30, gt=0)
    published: str
