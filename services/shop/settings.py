"""The shop's settings."""

from psycopg.conninfo import make_conninfo
from pydantic import Field, SecretStr

from services.stack.settings import SourceEndpoint


class ShopSettings(SourceEndpoint):
    """Where the shop's database is, and how busy the shop is as a service."""

    shop_password: SecretStr = Field(min_length=1)
    shop_rate: float = Field(default=20, gt=0)

    @property
    def dsn(self) -> str:
        """How to connect as the shop's owner. Holds the password."""
        return make_conninfo(
            host=self.source_db_host, port=self.source_db_port, dbname=self.source_db_name, user="shop",
            password=self.shop_password.get_secret_value(), application_name="shop", connect_timeout=5,
        )  # fmt: skip
