"""Where the stack's endpoints are, and the credentials of a person who looks at it from outside."""

from urllib.parse import quote

from pydantic import Field, SecretStr

from pipelines.lake.names import lake_namespace
from pipelines.protection.crypto import ProtectionKeys
from pipelines.sources.base.database import SourceAddress
from services.stack.errors import NotConfigured
from services.stack.settings import CapturedSource


class StackSettings(CapturedSource):
    """Endpoints and credentials."""

    on_host = {
        "kafka_bootstrap": ("KAFKA_PORT", "127.0.0.1:{}"),
        "schema_registry_url": ("SCHEMA_REGISTRY_PORT", "http://127.0.0.1:{}/apis/ccompat/v7"),
        "connect_url": ("CONNECT_PORT", "http://127.0.0.1:{}"),
        "catalog_uri": ("CATALOG_PORT", "http://127.0.0.1:{}"),
        "s3_endpoint": ("OBJECT_STORE_PORT", "http://127.0.0.1:{}"),
    }

    shop_password: SecretStr = Field(min_length=1)

    kafka_bootstrap: str
    schema_registry_url: str
    connect_url: str
    catalog_uri: str
    # How long a person, or a process that has others to look at, waits for the catalog; None: for ever.
    catalog_timeout_seconds: float | None = Field(default=None, gt=0)
    s3_endpoint: str

    warehouse: str
    s3_region: str
    s3_bucket: str
    operator_s3_access_key: SecretStr = Field(min_length=1)
    operator_s3_secret_key: SecretStr = Field(min_length=1)

    unavailable_value: str = Field(min_length=16)
    # None: of what contracts protect nothing is read or compared that needs a key.
    protection_key: SecretStr | None = None

    @property
    def source_dsn(self) -> SecretStr:
        """URL of the shop database for its owner."""
        password = quote(self.shop_password.get_secret_value(), safe="")
        where = f"{self.source_db_host}:{self.source_db_port}/{self.source_db_name}"
        return SecretStr(f"postgresql://shop:{password}@{where}")

    @property
    def source_address(self) -> SourceAddress:
        """The source's database, for the shop's owner."""
        return self.address("shop", self.shop_password, "lakehouse")

    @property
    def protection_keys(self) -> ProtectionKeys | None:
        """The keys of what contracts protect; None: there is no secret. Raises NotConfigured."""
        try:
            return ProtectionKeys.of(self.protection_key)
        except ValueError as error:
            raise NotConfigured(f"{error}") from None

    def namespace(self, schema: str) -> str:
        """Return the lake's namespace for a schema of the source."""
        return lake_namespace(self.source_name, schema)
