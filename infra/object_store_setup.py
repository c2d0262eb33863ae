"""Prepares the object store: the bucket, and a user with only its own rights for each part of the platform.

Runs to completion before anything reads or writes the lake; running it again changes only what differs.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import structlog
from minio import Minio, MinioAdmin
from minio.credentials.providers import StaticProvider
from minio.error import MinioAdminException, S3Error
from pydantic import SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_exponential
from urllib3.exceptions import HTTPError

log = structlog.get_logger()

WAREHOUSE_PREFIX, PUBLISHED_PREFIX = "warehouse", "published"
READ = ["s3:GetObject"]
WRITE = [*READ, "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"]
STARTING = frozenset({"ServerNotInitialized", "XMinioServerNotInitialized", "SlowDown"})
Policy = dict[str, Any]


class Settings(BaseSettings):
    """Where the object store is, and every key pair, from the environment."""

    model_config = SettingsConfigDict(frozen=True)

    s3_endpoint: str
    s3_region: str
    s3_bucket: str
    object_store_root_user: str
    object_store_root_password: SecretStr
    catalog_s3_access_key: str
    catalog_s3_secret_key: SecretStr
    pipelines_s3_access_key: str
    pipelines_s3_secret_key: SecretStr
    operator_s3_access_key: str
    operator_s3_secret_key: SecretStr
    analyst_s3_access_key: str
    analyst_s3_secret_key: SecretStr
    restricted_s3_access_key: str
    restricted_s3_secret_key: SecretStr
    source_name: str
    analyst_namespaces: str


@dataclass(frozen=True)
class User:
    """A user of the object store and the name of the policy it carries."""

    access_key: str
    secret_key: SecretStr
    policy: str


def warehouse_policy(bucket: str) -> Policy:
    """Return the rights of what writes tables: objects below the warehouse's prefix and the published datasets'."""
    return _policy(bucket, [WAREHOUSE_PREFIX, PUBLISHED_PREFIX], WRITE)


def bucket_policy(bucket: str) -> Policy:
    """Return the rights of a person who works on the lake: every object of the one bucket, and listing it."""
    return _policy(bucket, None, WRITE)


def analyst_policy(bucket: str, source: str, beside: str) -> Policy:
    """Return the rights of who may read every table that is mirrored, and every published dataset.

    ``beside``: namespaces of event streams and derived tables that are read too, with commas between them.

    Not the platform's own tables, with dead letters and the keys of rows that differed.
    """
    others = [name.strip() for name in beside.split(",") if name.strip()]
    tables = [f"{WAREHOUSE_PREFIX}/{name}" for name in (source, f"{source}_*", *others)]
    return _policy(bucket, [*tables, PUBLISHED_PREFIX], READ)


def restricted_policy(bucket: str) -> Policy:
    """Return the rights of who may read what contracts show the role ``restricted``, and nothing else."""
    return _policy(bucket, [f"{PUBLISHED_PREFIX}/restricted"], READ)


def _policy(bucket: str, prefixes: list[str] | None, actions: list[str]) -> Policy:
    """``prefixes``: of objects, and of what may be listed; None: all."""
    arn = f"arn:aws:s3:::{bucket}"
    listing = None if prefixes is None else [each for prefix in prefixes for each in (prefix, f"{prefix}/*")]
    condition = {"Condition": {"StringLike": {"s3:prefix": listing}}} if listing else {}
    objects = ["*"] if prefixes is None else [f"{prefix}/*" for prefix in prefixes]
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": ["s3:GetBucketLocation"], "Resource": [arn]},
            {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [arn], **condition},
            {"Effect": "Allow", "Action": actions, "Resource": [f"{arn}/{each}" for each in objects]},
            # MinIO lets every user make further keys for itself unless told not to.
            {"Effect": "Deny", "Action": ["admin:*"]},
        ],
    }


def passing(error: BaseException) -> bool:
    """Say whether an error goes away by itself: no connection, or a store that has not finished starting."""
    if isinstance(error, HTTPError):
        return True
    if isinstance(error, MinioAdminException):
        return error._code.startswith("5")
    return isinstance(error, S3Error) and error.code in STARTING


def prepare(settings: Settings) -> None:
    """Bring bucket, policies and users to what the settings say; keys that were replaced stop working.

    Raises `MinioAdminException`, `S3Error` or urllib3's `HTTPError` when the store refuses or can't be reached.
    """
    endpoint = urlsplit(settings.s3_endpoint)
    provider = StaticProvider(settings.object_store_root_user, settings.object_store_root_password.get_secret_value())
    secure = endpoint.scheme == "https"
    store = Minio(endpoint.netloc, credentials=provider, region=settings.s3_region, secure=secure)
    admin = MinioAdmin(endpoint=endpoint.netloc, credentials=provider, region=settings.s3_region, secure=secure)

    if not store.bucket_exists(settings.s3_bucket):
        store.make_bucket(settings.s3_bucket, settings.s3_region)
        log.info("bucket made", bucket=settings.s3_bucket)

    policies = {
        "catalog": warehouse_policy(settings.s3_bucket),
        "pipelines": warehouse_policy(settings.s3_bucket),
        "operator": bucket_policy(settings.s3_bucket),
        "analyst": analyst_policy(settings.s3_bucket, settings.source_name, settings.analyst_namespaces),
        "restricted": restricted_policy(settings.s3_bucket),
    }
    for name, policy in policies.items():
        admin.policy_add(name, policy=policy)

    users = (
        User(settings.catalog_s3_access_key, settings.catalog_s3_secret_key, "catalog"),
        User(settings.pipelines_s3_access_key, settings.pipelines_s3_secret_key, "pipelines"),
        User(settings.operator_s3_access_key, settings.operator_s3_secret_key, "operator"),
        User(settings.analyst_s3_access_key, settings.analyst_s3_secret_key, "analyst"),
        User(settings.restricted_s3_access_key, settings.restricted_s3_secret_key, "restricted"),
    )
    existing: dict[str, Any] = json.loads(admin.user_list())
    for user in users:
        admin.user_add(user.access_key, user.secret_key.get_secret_value())
        if existing.get(user.access_key, {}).get("policyName") != user.policy:
            admin.policy_set(user.policy, user=user.access_key)
    for access_key in replaced(existing, policies, users):
        admin.user_remove(access_key)
        log.info("replaced user removed", access_key=access_key)
    log.info("object store ready", bucket=settings.s3_bucket, users=[user.access_key for user in users])


def replaced(existing: dict[str, Any], policies: dict[str, Policy], users: tuple[User, ...]) -> list[str]:
    """Return the access keys that carry a policy of ours but are no longer a user of ours."""
    current = {user.access_key for user in users}
    return [key for key, info in existing.items() if key not in current and info.get("policyName") in policies]


def main() -> int:
    """Prepare the store, retrying for a minute while it starts; return 0, 1 (refused) or 2 (environment incomplete)."""
    try:
        settings = Settings.model_validate({})
    except ValidationError as error:
        missing = ", ".join(str(detail["loc"][0]).upper() for detail in error.errors())
        log.critical("object store not prepared: set these variables", variables=missing)
        return 2
    retrying = Retrying(
        retry=retry_if_exception(passing), stop=stop_after_delay(60), wait=wait_exponential(0.2, max=3), reraise=True
    )
    try:
        retrying(prepare, settings)
    except (HTTPError, MinioAdminException, S3Error) as error:
        log.critical("object store not prepared", endpoint=settings.s3_endpoint, error=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
