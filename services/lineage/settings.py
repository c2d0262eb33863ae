"""The lineage service's settings, and those of who asks it."""

from psycopg.conninfo import make_conninfo
from pydantic import Field, SecretStr

from services.stack.endpoints import StackSettings
from services.stack.settings import ServiceSettings


class LineageEndpoint(ServiceSettings):
    """Where the service answers. ``source_name``: the namespace of the mirrored tables, or its beginning."""

    on_host = {"lineage_url": ("LINEAGE_PORT", "http://127.0.0.1:{}")}

    lineage_url: str
    source_name: str


class LineageAccess(LineageEndpoint):
    """Where the service answers, and what sending events to it takes."""

    lineage_api_key: SecretStr = Field(min_length=1)


class LineageSettings(StackSettings):
    """The service's settings.

    ``lineage_api_key``: who sends events must have it. ``openlineage_url``: where all events are sent on to, with
    ``openlineage_api_key``, if anywhere. ``lineage_seconds``: between two looks at the lake. ``lineage_days``: how long
    events and runs are kept.
    """

    metadata_db_host: str = "127.0.0.1"
    metadata_db_port: int = Field(gt=0, lt=65536)
    lineage_db_password: SecretStr = Field(min_length=1)
    bind_address: str = "127.0.0.1"
    lineage_port: int = Field(gt=0, lt=65536)
    lineage_api_key: SecretStr = Field(min_length=1)
    lineage_seconds: float = Field(default=5, gt=0)
    lineage_days: float = Field(default=14, gt=0)
    openlineage_url: str = ""
    openlineage_api_key: SecretStr = SecretStr("")

    @property
    def lineage_conninfo(self) -> SecretStr:
        """How to connect to the store's database."""
        return SecretStr(make_conninfo(
            host=self.metadata_db_host, port=self.metadata_db_port, dbname="lineage", user="lineage",
            password=self.lineage_db_password.get_secret_value(), application_name="lakehouse lineage",
            connect_timeout=5,
        ))  # fmt: skip
