"""The mirror's settings: one frozen object, read from the environment that docker-compose.yml describes."""

from pathlib import Path
from typing import Any

from pydantic import AnyHttpUrl, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from pipelines.proxies import bypass_proxies
from pipelines.specs.load import DIRECTORY
from quality import odcs


class MirrorSettings(BaseSettings):
    """The settings of the mirror process. Fields are environment variables of the same name in upper case.

    S3 credentials are not here: Spark and the AWS SDK read them from ``AWS_ACCESS_KEY_ID`` and
    ``AWS_SECRET_ACCESS_KEY``, so that they appear in no configuration that Spark shows.
    """

    model_config = SettingsConfigDict(frozen=True, extra="ignore")

    source_name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    captured_schemas: str = "public"
    unavailable_value: str = Field(min_length=16)

    kafka_bootstrap: str
    schema_registry_url: AnyHttpUrl
    catalog_uri: AnyHttpUrl
    warehouse: str
    s3_endpoint: AnyHttpUrl
    s3_region: str

    spark_master: str
    # What a Spark cluster asks of whoever wants something of it; None: nothing.
    spark_secret_key: SecretStr | None = None
    spark_driver_bind: str = "127.0.0.1"
    spark_driver_host: str = "127.0.0.1"
    # As the JVM has it: a heap of another form ends it before it can say why.
    spark_driver_memory: str = Field(default="1536m", pattern=r"^[1-9]\d*[kmgtKMGT]$")
    spark_executor_memory: str = Field(default="1g", pattern=r"^[1-9]\d*[kmgtKMGT]$")
    # None: all that there are.
    spark_executor_cores: int | None = Field(default=None, gt=0)
    spark_java_options: str = ""
    spark_executor_java_options: str = ""
    spark_ui_port: int = 4040
    spark_jars: Path = Path(".lakehouse/toolchain/jars/spark")
    class_archive: Path = Path(".lakehouse/toolchain/classes.jsa")

    shuffle_partitions: int = Field(default=2, gt=0)
    max_offsets_per_trigger: int = Field(default=1_000_000, gt=0)
    protection_key: SecretStr | None = None
    dead_letter_share: float = Field(default=0.5, gt=0, le=1)
    specs: Path = DIRECTORY
    contracts: Path = odcs.DIRECTORY
    state_dir: Path
    # Where failpoints are armed; empty: in the state folder.
    failpoints_dir: str = ""

    def model_post_init(self, _: Any, /) -> None:
        """Have none of the endpoints asked through a proxy."""
        bypass_proxies(map(str, (self.schema_registry_url, self.catalog_uri, self.s3_endpoint)))

    @property
    def checkpoint(self) -> Path:
        """The streaming query's own state."""
        return (self.state_dir / "checkpoint").resolve()

    @property
    def driver_lock(self) -> Path:
        """The file that a driver's JVM has locked while it lives."""
        return self.state_dir / "driver.lock"

    @property
    def failpoints(self) -> Path:
        """The folder in which failpoints are armed."""
        return Path(self.failpoints_dir) if self.failpoints_dir else self.state_dir / "failpoints"

    @property
    def schemas(self) -> tuple[str, ...]:
        """Captured schemas of the source, in the order given."""
        return tuple(name.strip() for name in self.captured_schemas.split(",") if name.strip())
