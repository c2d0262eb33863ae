"""The shop's settings."""

from pydantic import Field, SecretStr

from services.settings import SourceDatabase


class ShopSettings(SourceDatabase):
    """Where the shop's database is, and how busy the shop is as a service."""

    shop_password: SecretStr = Field(min_length=1)
    shop_rate: float = Field(default=20, gt=0)

    @property
    def dsn(self) -> str:
        """How to connect as the shop's owner. Holds the password."""
        return self.conninfo("shop", self.shop_password, "shop")
