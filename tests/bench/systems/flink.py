"""Flink on one machine, upserting into Iceberg v2 tables with equality deletes."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.schema.columns import SourceColumn, TableShape
from pipelines.sources.debezium.envelope import table_shape
from tests.bench.systems.base import JARS, Job, Launch, System, inherited
from tests.integration.stack import CHECKOUT

SOURCE = CHECKOUT / "tests/bench/jobs/flink/Job.java"
HEAP = "1536m"
SETTINGS = {
    "parallelism.default": "2",
    "execution.checkpointing.interval": "10 s",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    "execution.checkpointing.storage": "filesystem",
    "state.backend.type": "hashmap",
    "table.local-time-zone": "UTC",
    "rest.port": "0",
}
_OPENED = ("java.base/java.lang", "java.base/java.util", "java.base/java.net", "java.base/java.io",
           "java.base/java.nio", "java.base/java.time", "java.base/java.text", "java.base/java.util.concurrent",
           "java.base/java.util.concurrent.atomic", "java.base/java.lang.reflect", "java.base/sun.nio.ch")  # fmt: skip
_PLAIN = {"boolean": "BOOLEAN", "int": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
          "string": "STRING", "bytes": "BYTES"}  # fmt: skip


class Flink(System):
    """The best form that is exact: SQL up to the sink, where a delete deletes."""

    name, title, mode = "flink", "Flink 2.1, upserts and deletes", "changelog"
    guarantees = (
        "Inserts, updates and deletes by key, exactly once (checkpoints); order by Kafka offset. Values missing from "
        "the log are overwritten by the placeholder. Readers pay for equality deletes until they are compacted."
    )
    settings = (
        "SQL with avro-confluent, then Iceberg's sink for DataStreams in upsert mode, because the SQL format for "
        "Debezium refuses updates without full before-images; checkpoint every 10 s; parallelism 2"
    )
    component = "flink"

    def launch(self, job: Job) -> Launch:
        folder = job.folder / "job"
        folder.mkdir(exist_ok=True)
        namespace = self.namespace(job.workload)
        lake = _catalog(job)
        setup = [_create_catalog(lake), f"CREATE DATABASE IF NOT EXISTS lake.`{namespace}`"]
        inserts = []
        for table, key in job.workload.keys.items():
            shape = table_shape(job.topics.name(table), (job.workload.schema, table), job.topics.value_schema(table))
            setup += [_sink(f"lake.`{namespace}`.`{table}`", shape, key), _source(job, table, shape)]
            query = _query(table, shape)
            inserts.append(f"INSERT INTO lake.`{namespace}`.`{table}` {query} WHERE op <> 'd'")
            changelog = f"{namespace}.{table} {','.join(key)}\n{_query(table, shape, with_op=True)}"
            (folder / f"{table}.query").write_text(changelog, encoding="utf-8")
        checkpoints = job.folder / "checkpoints"
        settings = SETTINGS | {"execution.checkpointing.dir": checkpoints.as_uri()}
        if newest := _newest(checkpoints):
            settings["execution.state-recovery.path"] = newest.as_uri()
        (folder / "setup.sql").write_text(";\n".join(setup), encoding="utf-8")
        (folder / "insert.sql").write_text(";\n".join(inserts), encoding="utf-8")
        _write_properties(folder / "flink.properties", settings)
        _write_properties(folder / "catalog.properties", lake)
        opened = [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED]
        # Compiled, as Flink loads the job's classes by name.
        classes = job.folder / "classes"
        if not classes.exists():
            subprocess.run(["javac", "-d", classes, "-cp", str(JARS / "flink/*"), SOURCE], check=True)
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        command = ("java", f"-Xmx{HEAP}", "-XX:+UseParallelGC", *opened, quiet, "-cp", f"{classes}:{JARS / 'flink/*'}")
        return Launch((*command, "Job", str(folder), self.mode), inherited(job))


class FlinkSql(Flink):
    """SQL alone, as it is mostly shown: deletes are left out."""

    name, title, mode = "flink-sql", "Flink 2.1 SQL, upserts only", "sql"
    guarantees = "Inserts and updates by key, exactly once. **Deletes are not applied.**"
    settings = "SQL with avro-confluent, INSERT INTO an upsert table; checkpoint every 10 s; parallelism 2"
    beside = True


def _catalog(job: Job) -> dict[str, str]:
    told = job.stage.mirror_environment
    return {
        "uri": told["CATALOG_URI"], "warehouse": told["WAREHOUSE"],
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "s3.endpoint": told["S3_ENDPOINT"],
        "s3.path-style-access": "true", "client.region": told["S3_REGION"],
    }  # fmt: skip


def _create_catalog(lake: Mapping[str, str]) -> str:
    options = {"type": "iceberg", "catalog-type": "rest", **lake}
    return f"CREATE CATALOG lake WITH ({_options(options)})"


def _options(options: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in options.items())


def _sink(name: str, shape: TableShape, key: tuple[str, ...]) -> str:
    columns = [f"`{c.name}` {_lake_type(c)}{' NOT NULL' if c.name in key else ''}" for c in shape.columns]
    by = ", ".join(f"`{column}`" for column in key)
    # Flink ends a statement at its checkpoint; format 2 and upserts are what its equality deletes need.
    options = {"format-version": "2", "write.upsert.enabled": "true"}
    return (
        f"CREATE TABLE IF NOT EXISTS {name} ({', '.join([*columns, '`_lsn` BIGINT'])},"
        f" PRIMARY KEY ({by}) NOT ENFORCED) WITH ({_options(options)})"
    )


def _source(job: Job, table: str, shape: TableShape) -> str:
    row = ", ".join(f"`{column.field}` {_avro_type(column.avro)}" for column in shape.columns)
    told = job.stage.mirror_environment
    options = {
        "connector": "kafka", "topic": shape.topic, "properties.bootstrap.servers": told["KAFKA_BOOTSTRAP"],
        "properties.isolation.level": "read_committed", "properties.group.id": "bench-flink",
        "scan.startup.mode": "earliest-offset", "format": "avro-confluent",
        "avro-confluent.url": told["SCHEMA_REGISTRY_URL"],
    }  # fmt: skip
    return (
        f"CREATE TEMPORARY TABLE `source_{table}` (`before` ROW<{row}>, `after` ROW<{row}>,"
        f" `source` ROW<`lsn` BIGINT>, `op` STRING) WITH ({_options(options)})"
    )


def _query(table: str, shape: TableShape, with_op: bool = False) -> str:
    def image(column: SourceColumn) -> str:
        if not with_op:
            return f"`after`.`{column.field}`"
        return f"CASE WHEN op = 'd' THEN `before`.`{column.field}` ELSE `after`.`{column.field}` END"

    outputs = [f"{_converted(column, image(column))} AS `{column.name}`" for column in shape.columns]
    outputs += ["`source`.`lsn` AS `_lsn`", *(["op"] if with_op else [])]
    return f"SELECT {', '.join(outputs)} FROM `source_{table}`"


def _avro_type(avro: Any) -> str:
    """Flink's type of a value as it arrives."""
    if isinstance(avro, list):
        return _avro_type(next(branch for branch in avro if branch != "null"))
    if isinstance(avro, dict):
        return f"ARRAY<{_avro_type(avro['items'])}>" if avro["type"] == "array" else _avro_type(avro["type"])
    return _PLAIN[avro]


def _lake_type(column: SourceColumn) -> str:
    """Flink's type of the lake's column. What it can't convert without a loss is kept as it arrives."""
    kind = str(column.type.iceberg)
    if kind.startswith("decimal"):
        return kind.upper()
    return {"date": "DATE", "timestamptz": "TIMESTAMP_LTZ(6)"}.get(kind, _avro_type(column.avro))


def _converted(column: SourceColumn, value: str) -> str:
    match _lake_type(column):
        case "DATE":
            return f"TIMESTAMPADD(DAY, {value}, DATE '1970-01-01')"
        case "TIMESTAMP_LTZ(6)":
            plain = f"REPLACE(REPLACE({value}, 'T', ' '), 'Z', '')"
            return f"CAST(CAST({plain} AS TIMESTAMP(6)) AS TIMESTAMP_LTZ(6))"
        case kind if kind.startswith("DECIMAL"):
            return f"CAST({value} AS {kind})"
    return value


def _newest(checkpoints: Path) -> Path | None:
    """The newest complete checkpoint, from which a killed job goes on."""
    complete = [path.parent for path in checkpoints.glob("*/chk-*/_metadata")]
    return max(complete, key=os.path.getmtime, default=None)


def _write_properties(path: Path, values: Mapping[str, str]) -> None:
    lines = (f"{name}={json.dumps(value)[1:-1].replace(':', chr(92) + ':')}" for name, value in values.items())
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
