"""Capture's settings: environment variables in a service, and `.env` besides on the host."""

import os
from pathlib import Path
from typing import Any, Self

from psycopg.conninfo import make_conninfo
from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.capture.errors import NotConfigured

CHECKOUT = Path(__file__).resolve().parents[2]

_ON_HOST = {
    "connect_url": ("CONNECT_PORT", "http://127.0.0.1:{}"),
    "registry_native_url": ("SCHEMA_REGISTRY_PORT", "http://127.0.0.1:{}/apis/registry/v2"),
}


class SourceSettings(BaseSettings):
    """Where the source and its connector are. Fields are environment variables of the same name in upper case."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_file_encoding="utf-8")

    source_db_host: str = "127.0.0.1"
    source_db_port: int = Field(gt=0, lt=65536)
    source_db_name: str = Field(default="shop", min_length=1)
    source_db_owner: str = Field(default="shop", min_length=1)
    source_name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    captured_schemas: str = "public"
    connect_url: str
    state_dir: Path = CHECKOUT / ".lakehouse/data/capture"

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
        """The settings: the environment first, then the checkout's `.env`. Raises NotConfigured."""
        path = env_file or CHECKOUT / ".env"
        try:
            return cls(_env_file=path)
        except ValidationError as error:
            wrong = ", ".join(sorted({str(part).upper() for e in error.errors() for part in e["loc"]}))
            raise NotConfigured(
                f"missing or not valid in the environment and {path}: {wrong}. `make env` writes .env."
            ) from None

    @property
    def schemas(self) -> tuple[str, ...]:
        """Captured schemas of the source, in the order given."""
        return tuple(name.strip() for name in self.captured_schemas.split(",") if name.strip())

    def conninfo(self, user: str, password: SecretStr) -> str:
        """How to connect to the source database as this user. Holds the password."""
        return make_conninfo(
            host=self.source_db_host, port=self.source_db_port, dbname=self.source_db_name, user=user,
            password=password.get_secret_value(), application_name="lakehouse capture", connect_timeout=5,
        )  # fmt: skip


class StatusSettings(SourceSettings):
    """What a look from outside needs: the source's owner may see all that is reported."""

    shop_password: SecretStr = Field(min_length=1)


class CaptureSettings(SourceSettings):
    """What the service needs."""

    source_db_admin_user: str = Field(default="postgres", min_length=1)
    source_db_admin_password: SecretStr = Field(min_length=1)
    debezium_password: SecretStr = Field(min_length=1)
    registry_native_url: str
    unavailable_value: str = Field(min_length=16)
    table_topic_partitions: int = Field(gt=0)
