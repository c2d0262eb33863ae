"""The roles that may only read, and what they need for it."""

from enum import Enum

from pydantic import Field, SecretStr

from services.stack.settings import ServiceSettings


class Role(Enum):
    """Whose credentials they are.

    The operator's, who may everything; an analyst's, who may read every table that is mirrored; or those of who may
    read what contracts show ``restricted``.
    """

    OPERATOR = "operator"
    ANALYST = "analyst"
    RESTRICTED = "restricted"


class ReaderSettings(ServiceSettings):
    """Endpoints of the lake, and the keys of its readers."""

    on_host = {
        "catalog_uri": ("CATALOG_PORT", "http://127.0.0.1:{}"),
        "s3_endpoint": ("OBJECT_STORE_PORT", "http://127.0.0.1:{}"),
    }

    catalog_uri: str
    s3_endpoint: str
    warehouse: str
    s3_region: str
    s3_bucket: str
    analyst_s3_access_key: SecretStr = Field(min_length=1)
    analyst_s3_secret_key: SecretStr = Field(min_length=1)
    restricted_s3_access_key: SecretStr = Field(min_length=1)
    restricted_s3_secret_key: SecretStr = Field(min_length=1)


def reader_endpoints(settings: ReaderSettings, role: Role) -> dict[str, str]:
    """Return what a reader is told; the names are those of `lakehouse env`."""
    access, secret = (getattr(settings, f"{role.value}_s3_{kind}_key") for kind in ("access", "secret"))
    return {
        "catalog_uri": settings.catalog_uri, "warehouse": settings.warehouse, "s3_endpoint": settings.s3_endpoint,
        "s3_region": settings.s3_region, "s3_bucket": settings.s3_bucket,
        "s3_access_key": access.get_secret_value(), "s3_secret_key": secret.get_secret_value(),
    }  # fmt: skip
