"""The `.env` file: every setting and secret of the stack, written once, kept private, never overwritten."""

from __future__ import annotations

import os
import re
import secrets
import tempfile
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

MODE = 0o600
_ASSIGNMENT = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)$")

Value = str | Callable[[], str]


def secret() -> str:
    """Return 40 hexadecimal digits (160 random bits): safe unquoted in .env, SQL, URLs and as an S3 secret key."""
    return secrets.token_hex(20)


def user_name(role: str) -> Callable[[], str]:
    """Return a maker of S3 access keys such as `catalog-1f6a2b3c` (3 to 20 characters, as MinIO asks)."""
    return lambda: f"{role}-{secrets.token_hex(4)}"


def cluster_id() -> str:
    """Return a Kafka cluster id: 22 characters of URL-safe base64, not starting with `-` (an option's mark)."""
    while True:
        candidate = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not candidate.startswith("-"):
            return candidate


def placeholder() -> str:
    """Return the text that stands for an unchanged TOAST value; random, so that no real value can equal it."""
    return f"__unavailable_{secrets.token_hex(16)}"


@dataclass(frozen=True)
class Group:
    """Settings that belong together, under one banner. A callable value is generated, once per installation."""

    title: str
    values: Mapping[str, Value]


GROUPS: tuple[Group, ...] = (
    Group(
        "Ports: the same inside and outside a container, bound to 127.0.0.1",
        {
            "SOURCE_DB_PORT": "5442",
            "METADATA_DB_PORT": "5443",
            "OBJECT_STORE_PORT": "9000",
            "KAFKA_PORT": "9092",
            "KAFKA_INTERNAL_PORT": "19092",
            "KAFKA_CONTROLLER_PORT": "19093",
            "SCHEMA_REGISTRY_PORT": "8081",
            "CONNECT_PORT": "8083",
            "CONNECT_SINK_PORT": "8084",
            "CATALOG_PORT": "8181",
            "LINEAGE_PORT": "8090",
            "SPARK_UI_PORT": "4040",
            "STREAMS_UI_PORT": "4041",
            "SPARK_MASTER_PORT": "7077",
            "SPARK_MASTER_UI_PORT": "8080",
            "SPARK_WORKER_UI_PORT": "8079",
            "TRINO_PORT": "8085",
            "CONSOLE_PORT": "8070",
            "PROMETHEUS_PORT": "9090",
            "ALERTMANAGER_PORT": "9093",
            "MIRROR_METRICS_PORT": "9201",
            "STREAMS_METRICS_PORT": "9202",
            "CAPTURE_METRICS_PORT": "9203",
            "VERIFIER_METRICS_PORT": "9204",
            "CHECKER_METRICS_PORT": "9205",
            "PUBLISHER_METRICS_PORT": "9206",
            "SHOP_METRICS_PORT": "9207",
            "PRODUCERS_METRICS_PORT": "9208",
            "KAFKA_METRICS_PORT": "9211",
            "CONNECT_METRICS_PORT": "9212",
            "CATALOG_METRICS_PORT": "9213",
            "POSTGRES_METRICS_PORT": "9214",
        },
    ),
    Group(
        "Source and capture. CAPTURED_SCHEMAS: comma-separated. MAX_SLOT_WAL_KEEP_SIZE: WAL a stopped capture may hold."
        "\n# SLOT_WAL_WARN_MIB: when `make status` warns of it",
        {
            "SOURCE_NAME": "shop",
            "CAPTURED_SCHEMAS": "public",
            "TABLE_TOPIC_PARTITIONS": "4",
            "MAX_SLOT_WAL_KEEP_SIZE": "4GB",
            "SLOT_WAL_WARN_MIB": "1024",
            "SHOP_RATE": "20",
        },
    ),
    Group(
        "Producers of event streams (PROFILES=events): events a second",
        {"CLICKS_RATE": "20", "LOGS_RATE": "20", "READINGS_RATE": "20"},
    ),
    Group(
        "Lake. MAX_OFFSETS_PER_TRIGGER: Kafka records that one batch of the mirror reads at most. DEAD_LETTER_SHARE:"
        "\n# what share of a table's records in a batch may become dead letters; beyond it the table is held",
        {
            "S3_BUCKET": "lake",
            "S3_REGION": "us-east-1",
            "WAREHOUSE": "s3://lake/warehouse",
            "PUBLISHED": "s3://lake/published",
            "MAX_OFFSETS_PER_TRIGGER": "1000000",
            "DEAD_LETTER_SHARE": "0.5",
        },
    ),
    Group(
        "The largest row, in MiB, that comes from the source to the lake; at most 500. More than 64 needs larger heaps:"
        "\n# infra/runbooks/row-too-large.md",
        {"LARGEST_ROW_MIB": "64"},
    ),
    Group(
        "Verifier: rows compared at one position, rows a second and share of the time that it works at most; seconds"
        " between two rounds of a table, and until a difference is looked at again",
        {
            "VERIFIER_CHUNK_ROWS": "20000",
            "VERIFIER_ROWS_PER_SECOND": "2000",
            "VERIFIER_SHARE": "0.1",
            "VERIFIER_PAUSE_SECONDS": "600",
            "VERIFIER_AGAIN_SECONDS": "30",
        },
    ),
    Group("Checker: seconds between two checks of a table that changes", {"CHECK_SECONDS": "900"}),
    Group(
        "Publisher: seconds between two looks at the tables of which roles are shown a part", {"PUBLISH_SECONDS": "30"}
    ),
    Group(
        "Metrics and alerts (PROFILES=observe): how long metrics are kept; by how much a table may be later than its"
        "\n# freshness, and how long nothing may come for one that had much. ALERT_WEBHOOK: where alerts are sent, too",
        {"PROMETHEUS_KEPT": "15d", "ALERT_LATE_SECONDS": "300", "ALERT_SILENT_MINUTES": "15"},
    ),
    Group(
        "The console lets its admin switch on faults, for rehearsals. In production: 0",
        {"CONSOLE_FAULTS": "1"},
    ),
    Group(
        "Namespaces of event streams and derived tables that the role analyst reads, beside the mirrored tables",
        {"ANALYST_NAMESPACES": "events,iot,marts,history"},
    ),
    Group(
        "Lineage: seconds between two looks at the lake, days that events and runs are kept. OPENLINEAGE_URL, and"
        "\n# OPENLINEAGE_API_KEY if it wants one: another endpoint, which all events are sent on to",
        {"LINEAGE_SECONDS": "5", "LINEAGE_DAYS": "14"},
    ),
    Group(
        "Memory and cores. Spark's worker has room for two executors: a mirror that takes over needn't wait for the"
        "\n# one before it to be gone. SERVER_JAVA_OPTIONS: more for Kafka, Connect, registry and catalog",
        {
            "KAFKA_HEAP": "512m",
            "CONNECT_HEAP": "1g",
            "SCHEMA_REGISTRY_HEAP": "256m",
            "CATALOG_HEAP": "256m",
            "TRINO_HEAP": "768m",
            "SPARK_DAEMON_HEAP": "192m",
            "SPARK_DRIVER_MEMORY": "1536m",
            "STREAMS_DRIVER_MEMORY": "768m",
            "SPARK_EXECUTOR_MEMORY": "1g",
            "SPARK_EXECUTOR_CORES": "2",
            "SPARK_WORKER_MEMORY": "2g",
            "SPARK_WORKER_CORES": "4",
            "SPARK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",
        },
    ),
    Group(
        "Secrets, generated here. A changed password takes effect when its server and its users restart",
        {
            "SOURCE_DB_ADMIN_PASSWORD": secret,
            "SHOP_PASSWORD": secret,
            "DEBEZIUM_PASSWORD": secret,
            "METADATA_DB_ADMIN_PASSWORD": secret,
            "CATALOG_DB_PASSWORD": secret,
            "REGISTRY_DB_PASSWORD": secret,
            "LINEAGE_DB_PASSWORD": secret,
            "LINEAGE_API_KEY": secret,
            "CONSOLE_SECRET": secret,
            "CONSOLE_ALERTS_TOKEN": secret,
            "CONSOLE_VIEWER_PASSWORD": secret,
            "CONSOLE_OPERATOR_PASSWORD": secret,
            "CONSOLE_ADMIN_PASSWORD": secret,
            "SPARK_SECRET_KEY": secret,
            "OBJECT_STORE_ROOT_USER": user_name("root"),
            "OBJECT_STORE_ROOT_PASSWORD": secret,
            "CATALOG_S3_ACCESS_KEY": user_name("catalog"),
            "CATALOG_S3_SECRET_KEY": secret,
            "PIPELINES_S3_ACCESS_KEY": user_name("pipelines"),
            "PIPELINES_S3_SECRET_KEY": secret,
            "OPERATOR_S3_ACCESS_KEY": user_name("operator"),
            "OPERATOR_S3_SECRET_KEY": secret,
            "ANALYST_S3_ACCESS_KEY": user_name("analyst"),
            "ANALYST_S3_SECRET_KEY": secret,
            "RESTRICTED_S3_ACCESS_KEY": user_name("restricted"),
            "RESTRICTED_S3_SECRET_KEY": secret,
        },
    ),
    Group(
        "What contracts protect is hashed and encrypted with keys of this. Keep a copy: without it nobody reads what is"
        "\n# encrypted. With another one, `lakehouse resync` the tables that protect something",
        {"PROTECTION_KEY": secret},
    ),
    Group(
        "Identity of this installation. Never change these: Kafka's log and the mirror's tables rest on them",
        {
            "KAFKA_CLUSTER_ID": cluster_id,
            "UNAVAILABLE_VALUE": placeholder,
        },
    ),
)


def assigned(text: str) -> dict[str, str]:
    """Return the variables that the text of an .env file sets (names to raw values); a blank value counts as unset."""
    matches = (_ASSIGNMENT.match(line) for line in text.splitlines())
    return {m[1]: m[2].strip() for m in matches if m and m[2].strip()}


def complete(text: str, groups: tuple[Group, ...] = GROUPS) -> tuple[str, list[str]]:
    """Return the text with every missing variable added, and the names added. What is set already is left as it is."""
    present = assigned(text)
    blocks: list[str] = []
    added: list[str] = []
    for group in groups:
        missing = {name: value for name, value in group.values.items() if name not in present}
        if not missing:
            continue
        lines = [f"# --- {group.title}"]
        lines += [f"{name}={value() if callable(value) else value}" for name, value in missing.items()]
        blocks.append("\n".join(lines) + "\n")
        added += missing
    if not blocks:
        return text, []
    if not text.strip():
        head = "# Settings and secrets of this installation: private. The next `make up` adds what is missing.\n"
    else:
        head = text if text.endswith("\n") else text + "\n"
    return head + "\n" + "\n".join(blocks), added


def write(path: Path) -> list[str]:
    """Create or complete the .env file at `path` with mode 0600 and return the names added (empty: nothing to do).

    The file is replaced in one step: a reader sees the old text or the new, never a part.
    """
    target = path.resolve()
    text = target.read_text(encoding="utf-8") if target.exists() else ""
    completed, added = complete(text)
    if not added:
        if target.stat().st_mode & 0o777 != MODE:
            target.chmod(MODE)
        return []
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".env.")  # mkstemp makes it 0600
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(completed)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return added


def defaults() -> dict[str, str]:
    """Return the settings that are not generated, with their default values."""
    return {name: value for group in GROUPS for name, value in group.values.items() if isinstance(value, str)}
