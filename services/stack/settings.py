"""What the services' settings have in common: environment variables in a container, and `.env` besides on the host.

In a container the environment says it all. On the host `.env` gives ports and secrets, and every host is 127.0.0.1.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from pipelines.proxies import bypass_proxies
from pipelines.sources.base.database import SourceAddress
from services.stack.errors import NotConfigured

CHECKOUT = Path(__file__).resolve().parents[2]


def env_file() -> Path:
    """Return the `.env` of the host: here, or the checkout's, whether it is there or not."""
    return next((path for path in (Path(".env"), CHECKOUT / ".env") if path.is_file()), CHECKOUT / ".env")


class ServiceSettings(BaseSettings):
    """Fields are environment variables of the same name in upper case.

    ``on_host``: for a field that is an endpoint, the variable that holds its port and the form of the endpoint; for
    where the environment doesn't give the endpoint itself.
    """

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_file_encoding="utf-8")
    on_host: ClassVar[Mapping[str, tuple[str, str]]] = {}

    @model_validator(mode="before")
    @classmethod
    def _endpoints_on_the_host(cls, values: dict[str, Any]) -> dict[str, Any]:
        given = {key.lower(): value for key, value in values.items()}
        for field, (port, form) in cls.on_host.items():
            number = os.environ.get(port) or given.get(port.lower())
            if not given.get(field) and number:
                given[field] = form.format(number)
        return given

    @classmethod
    def load(cls, file: Path | None = None) -> Self:
        """Return the settings: the environment first, then `.env` here or in the checkout. Raises NotConfigured.

        From then on no endpoint of theirs is asked through a proxy.
        """
        path = file or env_file()
        try:
            found = cls(_env_file=path)
        except ValidationError as error:
            raise NotConfigured(_what_is_wrong(error, path)) from None
        # Of a class that has fewer fields than those that it stands on, the endpoints that it has.
        bypass_proxies(str(getattr(found, field)) for field in cls.on_host if field in cls.model_fields)
        return found


def _what_is_wrong(error: ValidationError, path: Path) -> str:
    """Return which settings are missing, and which aren't valid and why. No value is told: it may be a secret."""
    where = path if path.is_file() else f"{path} (which doesn't exist)"
    named = {".".join(map(str, e["loc"])).upper(): e for e in error.errors(include_input=False, include_url=False)}
    missing = sorted(name for name, e in named.items() if e["type"] == "missing")
    invalid = [f"{name} isn't valid: {e['msg']}" for name, e in sorted(named.items()) if e["type"] != "missing"]
    lines = []
    if missing:
        lines.append(
            f"missing in the environment and {where}: {', '.join(missing)}. `make up` adds to .env what is missing"
            " (`make env` does no more than that)."
        )
    if invalid:
        lines.append(f"{'; '.join(invalid)}. Correct it in the environment or {where}.")
    return " ".join(lines)


class SourceEndpoint(ServiceSettings):
    """Where the source's database is."""

    source_db_host: str = "127.0.0.1"
    source_db_port: int = Field(gt=0, lt=65536)
    source_db_name: str = Field(default="shop", min_length=1)


class CapturedSource(SourceEndpoint):
    """What of the source is mirrored."""

    source_name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    captured_schemas: str = "public"

    @property
    def schemas(self) -> tuple[str, ...]:
        """Captured schemas of the source, in the order given."""
        return tuple(name.strip() for name in self.captured_schemas.split(",") if name.strip())

    def address(self, user: str, password: SecretStr, application: str) -> SourceAddress:
        """Return where the source is and as whom to connect, under a name by which the database shows the session."""
        return SourceAddress(
            name=self.source_name, schemas=self.schemas, host=self.source_db_host, port=self.source_db_port,
            database=self.source_db_name, user=user, password=password, application=application,
        )  # fmt: skip
