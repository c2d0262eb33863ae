"""Where the stack's endpoints are, and the credentials of a person who looks at it from outside.

In a container the environment says it all. On the host, `.env` gives ports and secrets, and every host is 127.0.0.1.
"""

import os
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from psycopg.conninfo import make_conninfo
from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.verify.errors import NotConfigured

CHECKOUT = Path(__file__).resolve().parents[2]

_ON_HOST = {
    "kafka_bootstrap": ("KAFKA_PORT", "127.0.0.1:{}"),
    "schema_registry_url": ("SCHEMA_REGISTRY_PORT", "http://127.0.0.1:{}/apis/ccompat/v7"),
    "connect_url": ("CONNECT_PORT", "http://127.0.0.1:{}"),
    "catalog_uri": ("CATALOG_PORT", "http://127.0.0.1:{}"),
    "s3_endpoint": ("OBJECT_STORE_PORT", "http://127.0.0.1:{}"),
}


class StackSettings(BaseSettings):
    """Endpoints and credentials. Fields are environment variables of the same name in upper case."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_file_encoding="utf-8")

    source_db_host: str = "127.0.0.1"
    source_db_port: int = Field(gt=0, lt=65536)
    shop_password: SecretStr = Field(min_length=1)

    kafka_bootstrap: str
    schema_registry_url: str
    connect_url: str
    catalog_uri: str
    s3_endpoint: str

    warehouse: str
    s3_region: str
    s3_bucket: str
    operator_s3_access_key: SecretStr = Field(min_length=1)
    operator_s3_secret_key: SecretStr = Field(min_length=1)

    source_name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    captured_schemas: str = "public"
    unavailable_value: str = Field(min_length=16)

    @model_validator(mode="before")
    @classmethod
    def _endpoints_on_the_host(cls, values: dict[str, Any]) -> dict[str, Any]:
        given = {key.lower(): value for key, value in values.items()}
        for field, (port, form) in _ON_HOST.items():
            number = os.environ.get(port) or given.get(port.lower())
            if not given.get(field) and number:
                given[field] = form.format(number)
        return given

    @classmethod
    def load(cls, env_file: Path | None = None) -> Self:
        """The settings of this checkout: the environment first, then `.env`. Raises NotConfigured."""
        path = env_file or next((p for p in (Path(".env"), CHECKOUT / ".env") if p.is_file()), CHECKOUT / ".env")
        try:
            return cls(_env_file=path)
        except ValidationError as error:
            wrong = ", ".join(sorted({str(part).upper() for e in error.errors() for part in e["loc"]}))
            where = path if path.is_file() else f"{path} (which doesn't exist)"
            raise NotConfigured(f"missing or not valid in {where}: {wrong}. `make up` writes .env.") from None

    @property
    def schemas(self) -> tuple[str, ...]:
        """Captured schemas of the source, in the order given."""
        return tuple(name.strip() for name in self.captured_schemas.split(",") if name.strip())

    @property
    def source_dsn(self) -> SecretStr:
        """URL of the shop database for its owner."""
        password = self.shop_password.get_secret_value()
        return SecretStr(f"postgresql://shop:{_percent(password)}@{self.source_db_host}:{self.source_db_port}/shop")

    @property
    def source_conninfo(self) -> SecretStr:
        """The same for libpq, with a name by which PostgreSQL shows the session, and a time limit for connecting."""
        return SecretStr(
            make_conninfo(self.source_dsn.get_secret_value(), application_name="lakehouse", connect_timeout=5)
        )

    def namespace(self, schema: str) -> str:
        """The lake's namespace for a schema of the source."""
        return self.source_name if schema == "public" else f"{self.source_name}_{schema}"


def _percent(text: str) -> str:
    return quote(text, safe="")
