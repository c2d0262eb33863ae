from typing import Any

import pytest
from minio.error import MinioAdminException
from pydantic import SecretStr
from urllib3.exceptions import ProtocolError

from infra import object_store_setup as setup

ANALYST = setup.analyst_policy("lake", "shop", "events, marts")


def allowed(policy: dict[str, Any]) -> set[str]:
    return {action for s in policy["Statement"] if s["Effect"] == "Allow" for action in s["Action"]}


@pytest.mark.parametrize(
    "policy",
    [setup.warehouse_policy("lake"), setup.bucket_policy("lake"), ANALYST, setup.restricted_policy("lake")],
)  # fmt: skip
def test_nobody_administers_or_touches_buckets(policy: dict[str, Any]) -> None:
    assert not any(
        "*" in action or "Bucket" in action for action in allowed(policy) - {"s3:GetBucketLocation", "s3:ListBucket"}
    )
    assert {"Effect": "Deny", "Action": ["admin:*"]} in policy["Statement"]
    resources = [resource for s in policy["Statement"] for resource in s.get("Resource", [])]
    assert all(resource.startswith("arn:aws:s3:::lake") for resource in resources)


def test_writers_of_tables_stay_below_the_warehouse_and_what_is_published() -> None:
    objects = [s for s in setup.warehouse_policy("lake")["Statement"] if "s3:PutObject" in s["Action"]]
    assert [s["Resource"] for s in objects] == [["arn:aws:s3:::lake/warehouse/*", "arn:aws:s3:::lake/published/*"]]


@pytest.mark.parametrize("policy", [ANALYST, setup.restricted_policy("lake")])
def test_readers_only_read_and_list_where_they_may(policy: dict[str, Any]) -> None:
    assert allowed(policy) == {"s3:GetObject", "s3:ListBucket", "s3:GetBucketLocation"}
    (listing,) = (s for s in policy["Statement"] if s["Action"] == ["s3:ListBucket"])
    (objects,) = (s for s in policy["Statement"] if s["Action"] == ["s3:GetObject"])
    prefixes = {resource.removeprefix("arn:aws:s3:::lake/") for resource in objects["Resource"]}
    assert prefixes <= set(listing["Condition"]["StringLike"]["s3:prefix"])
    assert not any(prefix in ("*", "warehouse/*") or prefix.startswith("warehouse/lakehouse") for prefix in prefixes)


def test_only_replaced_users_of_ours_are_removed() -> None:
    existing = {
        "catalog-old": {"policyName": "catalog"},
        "catalog-new": {"policyName": "catalog"},
        "somebody": {"policyName": "readwrite"},
        "unfinished": {},
    }
    users = (setup.User("catalog-new", SecretStr("s"), "catalog"),)
    assert setup.replaced(existing, {"catalog": {}}, users) == ["catalog-old"]


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ProtocolError("reset"), True),
        (MinioAdminException("503", "not initialized"), True),
        (MinioAdminException("403", "denied"), False),
        (ValueError(), False),
    ],
)
def test_only_what_passes_by_itself_is_tried_again(error: Exception, passes: bool) -> None:
    assert setup.passing(error) is passes
