"""A house without servers, as the console would have seen it."""

from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import SecretStr

from pipelines.specs.load import Defaults, Specs
from services.console.house import House, Looked, Progress, TableView
from services.console.settings import ConsoleSettings
from services.facts.letters import OpenLetters
from services.facts.tables import TableFacts

EVIL = "<script>alert(1)</script>"
SECRET = "a-secret-that-nobody-sees"
PASSWORDS = {"viewer": "viewer-password", "operator": "operator-password", "admin": "admin-password"}
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def settings(folder: Path) -> ConsoleSettings:
    secret = SecretStr(SECRET)
    return ConsoleSettings(
        source_db_host="127.0.0.1", source_db_port=1, source_name="shop", shop_password=secret,
        kafka_bootstrap="127.0.0.1:1",
        schema_registry_url="http://127.0.0.1:1", connect_url="http://127.0.0.1:1", catalog_uri="http://127.0.0.1:1",
        s3_endpoint="http://127.0.0.1:1", warehouse="s3://lake/warehouse", s3_region="r", s3_bucket="lake",
        operator_s3_access_key=secret, operator_s3_secret_key=secret, analyst_s3_access_key=secret,
        analyst_s3_secret_key=secret, restricted_s3_access_key=secret, restricted_s3_secret_key=secret,
        unavailable_value="x" * 16, console_port=1, console_secret=secret, console_alerts_token=secret,
        console_viewer_password=SecretStr(PASSWORDS["viewer"]),
        console_operator_password=SecretStr(PASSWORDS["operator"]),
        console_admin_password=SecretStr(PASSWORDS["admin"]), prometheus_url="http://127.0.0.1:1",
        alertmanager_url="http://127.0.0.1:1", lineage_url="http://127.0.0.1:1", lineage_api_key=secret,
        state_dir=folder, failpoints_dir=folder / "failpoints", faults_url="http://127.0.0.1:1", console_faults=True,
    )  # fmt: skip


def specs() -> Specs:
    return Specs(Defaults(), {})


def view(name: str, rows: int = 10) -> TableView:
    facts = TableFacts(
        table=f"lake.{name}", kind="mirror", source_table=f"public.{name.partition('.')[2]}", topic=f"topic.{name}",
        key=["id"], rows=rows, data_files=3, delete_files=1, bytes=1_000, snapshots=4, snapshot_id="77",
        last_commit=NOW, lag=0, freshness_seconds=0.0,
        columns=[{"name": "id", "type": "long", "required": True, "key": True, "doc": EVIL}],
    )  # fmt: skip
    return TableView(f"s3://{name}/1.json", facts, 5.0, None)


def letters(count: int) -> OpenLetters:
    return OpenLetters((1, 1), pa.table({
        "topic": pa.array([f"topic.shop.t{i % 7}" for i in range(count)], pa.string()),
        "partition": pa.array([i % 4 for i in range(count)], pa.int32()),
        "offset": pa.array(range(count), pa.int64()),
        "stage": pa.array(["decode"] * count, pa.string()),
        "reason": pa.array([("not_avro", "rule_broken")[i % 2] for i in range(count)], pa.string()),
        "message": pa.array([f"{EVIL} {i}" for i in range(count)], pa.string()),
        "dead_lettered_at": pa.array([NOW] * count, pa.timestamp("us", tz="UTC")),
    }))  # fmt: skip


def house(tables: int = 3, dead: int = 0, **others: Any) -> House:
    names = [f"shop.t{number}" for number in range(tables - 1)] + [f"shop.{EVIL}"]
    found = House(
        tables={name: view(name) for name in names}, letters=letters(dead),
        progress=Progress({f"topic.{name}": 0 for name in names}),
        fresh={name: deque([1.0, 2.0, 1.5]) for name in names},
        looked={"catalog": Looked(NOW, 0.1), "kafka": Looked(NOW, 0.1)},
    )  # fmt: skip
    for field, value in others.items():
        setattr(found, field, value)
    return found
