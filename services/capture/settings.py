"""Capture's settings."""

from pathlib import Path

from pydantic import Field, SecretStr

from pipelines.sources.base.capture import ConnectorOptions
from pipelines.sources.base.database import SourceAddress
from services.stack.settings import CHECKOUT, CapturedSource

APPLICATION = "lakehouse capture"


class SourceSettings(CapturedSource):
    """Where the source and its connector are."""

    on_host = {
        "connect_url": ("CONNECT_PORT", "http://127.0.0.1:{}"),
        "registry_native_url": ("SCHEMA_REGISTRY_PORT", "http://127.0.0.1:{}/apis/registry/v2"),
    }

    source_db_owner: str = Field(default="shop", min_length=1)
    connect_url: str
    slot_wal_warn_mib: int = Field(default=1024, gt=0)
    largest_row_mib: int = Field(default=64, gt=0, le=500)
    state_dir: Path = CHECKOUT / ".lakehouse/data/capture"


class StatusSettings(SourceSettings):
    """What a look from outside needs: the source's owner may see all that is reported."""

    shop_password: SecretStr = Field(min_length=1)

    @property
    def owner_address(self) -> SourceAddress:
        """The source's database, for its owner."""
        return self.address(self.source_db_owner, self.shop_password, APPLICATION)


class CaptureSettings(SourceSettings):
    """What the service needs."""

    source_db_admin_user: str = Field(default="postgres", min_length=1)
    source_db_admin_password: SecretStr = Field(min_length=1)
    debezium_password: SecretStr = Field(min_length=1)
    registry_native_url: str
    unavailable_value: str = Field(min_length=16)
    table_topic_partitions: int = Field(gt=0)

    @property
    def administrator_address(self) -> SourceAddress:
        """The source's database, for its administrator."""
        return self.address(self.source_db_admin_user, self.source_db_admin_password, APPLICATION)

    @property
    def connector_options(self) -> ConnectorOptions:
        """What preparing the source and configuring its connector take besides."""
        return ConnectorOptions(
            owner=self.source_db_owner, password=self.debezium_password, registry_url=self.registry_native_url,
            unavailable_value=self.unavailable_value, topic_partitions=self.table_topic_partitions,
        )  # fmt: skip
