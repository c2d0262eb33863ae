"""What a role is shown of a table, and what it is refused, by the contract of ``shown`` in tests.integration.stack."""

from typing import Any

import httpx
import pytest
from minio import Minio
from minio.error import S3Error
from pydantic import SecretStr
from pyiceberg.catalog import Catalog, load_catalog

from pipelines.protection.crypto import ProtectionKeys
from tests.integration.stack import Stack, wait_until

pytestmark = pytest.mark.process


def catalog(stack: Stack, role: str) -> Catalog:
    env = stack.lakehouse("env", "--role", role)
    return load_catalog("lake", **{
        "type": "rest", "uri": env["catalog_uri"], "s3.endpoint": env["s3_endpoint"], "s3.region": env["s3_region"],
        "s3.access-key-id": env["s3_access_key"], "s3.secret-access-key": env["s3_secret_key"],
    })  # fmt: skip


def store(stack: Stack, role: str) -> Minio:
    env = stack.lakehouse("env", "--role", role)
    return Minio(env["s3_endpoint"].removeprefix("http://"), env["s3_access_key"], env["s3_secret_key"], secure=False,
                 region=env["s3_region"])  # fmt: skip


def seen(stack: Stack) -> list[dict[str, Any]]:
    """What the restricted role reads."""
    if not catalog(stack, "restricted").table_exists("restricted_shop.shown"):
        return []
    rows = catalog(stack, "restricted").load_table("restricted_shop.shown").scan().to_arrow().to_pylist()
    return sorted(
        ({name: value for name, value in row.items() if not name.startswith("_")} for row in rows),
        key=lambda row: row["id"],
    )


def refused(what: Any) -> bool:
    """Whether the object store refuses it."""
    try:
        what()
    except S3Error as error:
        return error.code == "AccessDenied"
    except (OSError, PermissionError) as error:
        return "ACCESS_DENIED" in str(error) or "Access Denied" in str(error) or "AccessDenied" in str(error)
    return False


def test_a_role_is_shown_its_part_of_a_table_as_it_changes(stack: Stack) -> None:
    keys = ProtectionKeys.of(SecretStr(stack.setting("PROTECTION_KEY")))
    assert keys is not None
    stack.sql(
        "CREATE TABLE shown (id bigint PRIMARY KEY, mail text, phone text, state text)",
        "INSERT INTO shown VALUES (1, 'a@b', '11', 'open'), (2, 'c@d', '22', 'secret'), (3, 'e@f', '33', 'open')",
    )
    stack.assert_equal("shown")
    first = [
        {"id": 1, "mail": keys.hashed("a@b"), "state": "open"},
        {"id": 3, "mail": keys.hashed("e@f"), "state": "open"},
    ]
    wait_until(lambda: seen(stack) == first)
    stack.sql("UPDATE shown SET state = 'secret' WHERE id = 1", "UPDATE shown SET state = 'told' WHERE id = 2",
              "DELETE FROM shown WHERE id = 3")  # fmt: skip
    wait_until(lambda: seen(stack) == [{"id": 2, "mail": keys.hashed("c@d"), "state": "told"}])
    wait_until(lambda: stack.lakehouse("table", "show", "shown")["published"][0]["behind_seconds"] == 0)
    (told,) = stack.lakehouse("table", "show", "shown")["published"]
    assert (told["role"], told["table"]) == ("restricted", "lake.restricted_shop.shown")
    wait_until(lambda: "error" not in stack.lakehouse("lineage", "show", "restricted_shop.shown.mail", ok=(0, 2)))
    graph = stack.lakehouse("lineage", "show", "restricted_shop.shown.mail", "--upstream")["graph"]
    assert {node["data"]["dataset"] for node in graph} == {
        "published/restricted/shop/shown", "warehouse/shop/shown", "shop.public.shown"
    }  # fmt: skip


def test_each_role_reads_what_it_may_and_nothing_else(stack: Stack) -> None:
    wait_until(lambda: seen(stack) != [])
    # Tables of the platform itself.
    stack.own("check", "shown")
    bucket = stack.endpoints["s3_bucket"]
    operator, analyst, restricted = (store(stack, role) for role in ("operator", "analyst", "restricted"))
    every = [found.object_name or "" for found in operator.list_objects(bucket, recursive=True)]
    may = {
        "analyst": [name for name in every if name.startswith(("warehouse/shop/", "published/"))],
        "restricted": [name for name in every if name.startswith("published/restricted/")],
    }
    assert may["restricted"]
    assert any(name.startswith("warehouse/lakehouse/") for name in every)
    for role, client in (("analyst", analyst), ("restricted", restricted)):
        for name in every:
            assert refused(lambda name=name, client=client: client.stat_object(bucket, name).size) == (
                name not in may[role]
            ), (role, name)
        assert refused(lambda client=client: list(client.list_objects(bucket, recursive=True)))
        assert refused(lambda client=client: list(client.list_objects(bucket, "warehouse/lakehouse/", recursive=True)))
        assert refused(lambda client=client, name=may[role][0]: client.remove_object(bucket, name))
    assert refused(lambda: list(restricted.list_objects(bucket, "warehouse/shop/", recursive=True)))
    assert [f.object_name for f in restricted.list_objects(bucket, "published/restricted/", recursive=True)]


def test_a_reader_cannot_read_around_it_by_the_catalog(stack: Stack) -> None:
    env = stack.lakehouse("env", "--role", "restricted")
    answer = httpx.get(f"{env['catalog_uri']}/v1/namespaces/shop/tables/shown", timeout=60).json()
    told = str(answer)
    secrets = [line.split("=", 1)[1] for line in (stack.folder / ".env").read_text().splitlines()
               if line.split("=")[0].endswith(("_SECRET_KEY", "_PASSWORD"))]  # fmt: skip
    assert not [secret for secret in secrets if secret and secret in told]
    table = catalog(stack, "restricted").load_table("shop.shown")
    assert refused(lambda: table.scan().to_arrow())
    for way in ("plan", "tasks", "%70lan"):
        assert (
            httpx.post(f"{env['catalog_uri']}/v1/namespaces/shop/tables/shown/{way}", json={}, timeout=60).status_code
            == 403
        )
    assert catalog(stack, "analyst").load_table("shop.shown").scan().to_arrow().num_rows == 2


@pytest.mark.slow
def test_what_is_not_shown_any_more_is_gone(stack: Stack) -> None:
    contract = stack.folder / "quality/contracts/shown.yaml"
    said = contract.read_text()
    before, rest = said.split("roles:\n")
    contract.write_text(before + rest[rest.index("schema:") :])
    stack.up()
    operator, bucket = store(stack, "operator"), stack.endpoints["s3_bucket"]

    def left() -> list[str]:
        listed = operator.list_objects(bucket, "published/restricted/shop/shown/", recursive=True)
        return [found.object_name or "" for found in listed]

    wait_until(lambda: not catalog(stack, "restricted").table_exists("restricted_shop.shown") and left() == [])
    stack.assert_equal("shown")
