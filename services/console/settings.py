"""The console's settings."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, SecretStr

from services.stack.endpoints import StackSettings
from services.stack.settings import CHECKOUT


class ConsoleSettings(StackSettings):
    """Where the console answers, who may enter, and what it asks."""

    on_host = {
        **StackSettings.on_host,
        "prometheus_url": ("PROMETHEUS_PORT", "http://127.0.0.1:{}"),
        "alertmanager_url": ("ALERTMANAGER_PORT", "http://127.0.0.1:{}"),
        "lineage_url": ("LINEAGE_PORT", "http://127.0.0.1:{}"),
        "faults_url": ("FAULTS_PORT", "http://127.0.0.1:{}"),
    }

    bind_address: str = "127.0.0.1"
    catalog_timeout_seconds: float | None = Field(default=20.0, gt=0)
    console_port: int = Field(gt=0, lt=65536)
    console_secret: SecretStr = Field(min_length=16)
    console_viewer_password: SecretStr = Field(min_length=8)
    console_operator_password: SecretStr = Field(min_length=8)
    console_admin_password: SecretStr = Field(min_length=8)
    console_alerts_token: SecretStr = Field(min_length=16)
    prometheus_url: str
    alertmanager_url: str
    lineage_url: str
    lineage_api_key: SecretStr = SecretStr("")
    analyst_s3_access_key: SecretStr = Field(min_length=1)
    analyst_s3_secret_key: SecretStr = Field(min_length=1)
    restricted_s3_access_key: SecretStr = Field(min_length=1)
    restricted_s3_secret_key: SecretStr = Field(min_length=1)
    state_dir: Path = CHECKOUT / ".lakehouse/data/console"
    # Whether the admin may switch on faults; where the mirror looks for failpoints, and where proxies are switched.
    console_faults: bool = False
    failpoints_dir: Path = CHECKOUT / ".lakehouse/data/mirror/failpoints"
    faults_url: str = "http://127.0.0.1:8474"

    @property
    def passwords(self) -> Mapping[str, SecretStr]:
        """Role to the password of its account, which has the role's name."""
        return {
            "viewer": self.console_viewer_password, "operator": self.console_operator_password,
            "admin": self.console_admin_password,
        }  # fmt: skip
