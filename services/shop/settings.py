"""The shop's settings: environment variables in a service, and `.env` besides on the host."""

from pathlib import Path
from typing import Self

from psycopg.conninfo import make_conninfo
from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

CHECKOUT = Path(__file__).resolve().parents[2]


class NotConfigured(ValueError):
    """A setting is missing or not valid."""


class ShopSettings(BaseSettings):
    """Where the shop's database is. Fields are environment variables of the same name in upper case."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_file_encoding="utf-8")

    source_db_host: str = "127.0.0.1"
    source_db_port: int = Field(gt=0, lt=65536)
    source_db_name: str = Field(default="shop", min_length=1)
    shop_password: SecretStr = Field(min_length=1)
    shop_rate: float = Field(default=20, gt=0)

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
    def dsn(self) -> str:
        """How to connect as the shop's owner. Holds the password."""
        return make_conninfo(
            host=self.source_db_host,
            port=self.source_db_port,
            dbname=self.source_db_name,
            user="shop",
            password=self.shop_password.get_secret_value(),
            application_name="shop",
            connect_timeout=5,
        )
