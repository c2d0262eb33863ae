"""Iceberg's own sink for Kafka Connect: appends what arrives."""

import uuid
from collections.abc import Mapping
from pathlib import Path

from pipelines.kafka.client import create_topic
from tests.bench.systems.base import JARS, Job, Launch, System, inherited

HEAP = "1536m"
GIVES_UP = ("Task is being killed and will not recover", 'Exception in thread "iceberg-coord"')
COMMIT_MS = "10000"


class ConnectSink(System):
    """A standalone Connect worker of its own with one connector for all tables."""

    name, title = "connect-sink", "Iceberg Kafka Connect sink 1.11"
    guarantees = "Every event once (offsets in the commit). No current state: who reads finds a key's newest event."
    settings = (
        "one connector, one task, commit every 10 s; ExtractNewRecordState, offsets and log position added; values "
        "kept as they arrive (instants and decimals are text)"
    )
    append_only = True
    component = "iceberg-sink"

    def launch(self, job: Job) -> Launch:
        # Its groups and control topic are named by this, so that after cleaning it begins anew.
        identity = job.folder / "identity"
        if not identity.exists():
            identity.write_text(uuid.uuid4().hex[:12], encoding="utf-8")
        name = f"bench-sink-{identity.read_text(encoding='utf-8')}"
        told = job.stage.mirror_environment
        create_topic(told["KAFKA_BOOTSTRAP"], f"{name}-control", {})
        plugins = job.folder / "plugins"
        plugins.mkdir(exist_ok=True)
        if not (plugins / "iceberg-sink").exists():
            (plugins / "iceberg-sink").symlink_to(JARS / "iceberg-sink")
        _write(job.folder / "worker.properties", _worker(told, job.folder, plugins))
        _write(job.folder / "sink.properties", self._sink(name, told, job))
        command = ("java", f"-Xmx{HEAP}", "-XX:+UseParallelGC", "-cp", str(JARS / "kafka/*"),
                   f"-Dlog4j2.configurationFile={job.stage.folder / 'infra/connect/log4j2.properties'}",
                   "org.apache.kafka.connect.cli.ConnectStandalone", str(job.folder / "worker.properties"),
                   str(job.folder / "sink.properties"))  # fmt: skip
        return Launch(command, inherited(job), gives_up=GIVES_UP)

    def _sink(self, name: str, told: Mapping[str, str], job: Job) -> dict[str, str]:
        namespace = self.namespace(job.workload)
        tables = {table: f"{namespace}.{table}" for table in job.workload.tables}
        catalog = {
            "type": "rest", "uri": told["CATALOG_URI"], "warehouse": told["WAREHOUSE"],
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "s3.endpoint": told["S3_ENDPOINT"],
            "s3.path-style-access": "true", "client.region": told["S3_REGION"],
        }  # fmt: skip
        return {
            "name": name,
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "tasks.max": "1",
            "topics": ",".join(job.topics.name(table) for table in job.workload.tables),
            "iceberg.tables": ",".join(tables.values()),
            "iceberg.tables.route-field": "_table",
            **{f"iceberg.table.{full}.route-regex": table for table, full in tables.items()},
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.control.topic": f"{name}-control",
            "iceberg.control.commit.interval-ms": COMMIT_MS,
            **{f"iceberg.catalog.{option}": value for option, value in catalog.items()},
            "transforms": "unwrap,place",
            "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
            "transforms.unwrap.delete.tombstone.handling.mode": "rewrite",
            "transforms.unwrap.add.fields": "op,lsn,table",
            "transforms.unwrap.add.fields.prefix": "_",
            "transforms.place.type": "org.apache.kafka.connect.transforms.InsertField$Value",
            "transforms.place.offset.field": "_kafka_offset",
            "transforms.place.partition.field": "_kafka_partition",
        }


def _worker(told: Mapping[str, str], folder: Path, plugins: Path) -> dict[str, str]:
    registry = told["SCHEMA_REGISTRY_URL"].replace("/apis/ccompat/v7", "/apis/registry/v2")
    converters = {
        f"{side}.converter{option}": value
        for side in ("key", "value")
        for option, value in {
            "": "io.apicurio.registry.utils.converter.AvroConverter", ".apicurio.registry.url": registry,
            ".apicurio.registry.as-confluent": "true", ".apicurio.registry.use-id": "contentId",
            ".apicurio.registry.headers.enabled": "false",
        }.items()
    }  # fmt: skip
    return {
        "bootstrap.servers": told["KAFKA_BOOTSTRAP"],
        "listeners": "http://127.0.0.1:0",
        "plugin.path": f"{JARS / 'connect-plugins'},{plugins}",
        "plugin.discovery": "only_scan",
        "offset.storage.file.filename": str(folder / "offsets"),
        "offset.flush.interval.ms": "1000",
        "consumer.auto.offset.reset": "earliest",
        "consumer.isolation.level": "read_committed",
        **converters,
    }


def _write(path: Path, values: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()), encoding="utf-8")
