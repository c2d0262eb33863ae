"""The producers' settings."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from services.shop.settings import ShopSettings


class ProducerSettings(ShopSettings):
    """Where events are sent, how many a second as a service, and the shop whose customers click."""

    on_host: ClassVar[Mapping[str, tuple[str, str]]] = {
        "kafka_bootstrap": ("KAFKA_PORT", "127.0.0.1:{}"),
        "schema_registry_url": ("SCHEMA_REGISTRY_PORT", "http://127.0.0.1:{}/apis/ccompat/v7"),
    }

    kafka_bootstrap: str
    schema_registry_url: str
    clicks_rate: float = Field(default=20, gt=0)
    logs_rate: float = Field(default=20, gt=0)
    readings_rate: float = Field(default=20, gt=0)
