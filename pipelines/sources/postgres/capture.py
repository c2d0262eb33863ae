"""Capture PostgreSQL: the SQL that prepares a source, and the settings of its Debezium connector. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipelines.sources.debezium.names import routing

ROLE = "debezium"
PUBLICATION = "lakehouse"
SLOT = "lakehouse"
OWN_SCHEMA = "lakehouse"
HEARTBEAT_TABLE = f"{OWN_SCHEMA}.heartbeat"
SIGNAL_TABLE = f"{OWN_SCHEMA}.signal"
SCHEMA_CHANGES = f"{OWN_SCHEMA}.schema_changes"
# Capture's own notes, which are of no use in Kafka.
EXCLUSIONS = f"{OWN_SCHEMA}.exclusions"
UNREAD_TABLES = (f"{OWN_SCHEMA}.seen", f"{OWN_SCHEMA}.rereads", EXCLUSIONS)

# For a session that changes what others use.
GIVE_WAY = """\
-- Waiting for a lock holds up everyone who comes after: rather give up and be tried again. And of those who wait in a
-- circle, PostgreSQL ends the one that looks first, after a second. Capture looks at once, and gives up sooner.
SET lock_timeout = '900ms';
DO $lakehouse$
BEGIN
  SET deadlock_timeout = '10ms';
EXCEPTION WHEN insufficient_privilege THEN
  NULL;
END
$lakehouse$;"""

# Not a captured table: what the connector says of its snapshots.
NOTIFICATIONS = f"{OWN_SCHEMA}.notifications"

# Of the connector as a job, in lineage.
JOB_NAMESPACE = "lakehouse"

HEARTBEAT_QUERY = f"UPDATE {HEARTBEAT_TABLE} SET beat_at = clock_timestamp()"


def quote(name: str) -> str:
    """Return a name as a PostgreSQL identifier.

    Any name is safe; ValueError on an empty one or one with a null character.
    """
    if not name or "\0" in name:
        raise ValueError("an identifier can't be empty or hold a null character")
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as a PostgreSQL literal, whatever standard_conforming_strings says.

    ValueError on a null character.
    """
    if "\0" in text:
        raise ValueError("a text can't hold a null character")
    quoted = "'" + text.replace("'", "''") + "'"
    return " E" + quoted.replace("\\", "\\\\") if "\\" in text else quoted


def prepare_sql(schemas: Iterable[str], *, password: str, owner: str) -> str:
    """Return the SQL that makes a source database ready for capture, for an administrator. Repeatable.

    ``password`` is the capture role's: itself, or its SCRAM verifier, which PostgreSQL stores as it is. ``owner`` is
    the role that may see capture's tables, mark a position and signal.
    """
    captured = _with_own(schemas)
    values = {
        "give_way": GIVE_WAY,
        "role": quote(ROLE),
        "role_literal": literal(ROLE),
        "owner": quote(owner),
        "password": literal(password),
        "publication": quote(PUBLICATION),
        "publication_literal": literal(PUBLICATION),
        "schemas": ", ".join(map(quote, captured)),
        "schema_literals": ", ".join(map(literal, captured)),
    }
    script = "\n".join(path.read_text(encoding="utf-8") for path in _SCRIPTS)
    return re.sub(r"\$\{(\w+)\}", lambda match: values[match[1]], script)


@dataclass(frozen=True)
class Capture:
    """The facts that a connector's settings are made of. ``database`` is reached at ``host:port``.

    ``escaped``: whether some table's columns can be told apart in Avro only if their names are escaped, which they then
    are in all tables. ``left_out`` names tables (``schema.table``) that must not be read, and ``excluded`` columns
    (``schema.table.column``). Generated ones are among these: their changes aren't in the log, so what the initial
    snapshot copies would be stale from the first change on.
    """

    host: str
    port: int
    database: str
    source_name: str
    schemas: tuple[str, ...]
    registry_url: str
    unavailable_value: str
    topic_partitions: int
    left_out: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    escaped: bool = False
    slot: str = SLOT


def taken_in(tables: Iterable[str], before: Mapping[str, str], now: Mapping[str, str]) -> frozenset[str]:
    """Return which of ``tables`` a connector reads by the configuration ``now``, and didn't by the one ``before``.

    Or some column of which it didn't. ``tables``: as ``schema.table``.
    """
    columns = set(_listed(before, "column.exclude")) - set(_listed(now, "column.exclude"))
    return frozenset(
        table
        for table in tables
        if _reads(now, table)
        and (not _reads(before, table) or any(c.startswith(_pattern(f"{table}.")) for c in columns))
    )


def _listed(config: Mapping[str, str], kind: str) -> list[str]:
    return config.get(f"{kind}.list", "").split(",")


def _reads(config: Mapping[str, str], table: str) -> bool:
    schema, _ = table.split(".", 1)
    schemas, left_out = _listed(config, "schema.include"), _listed(config, "table.exclude")
    return _pattern(schema) in schemas and _pattern(table) not in left_out


def connector_config(capture: Capture) -> dict[str, str]:
    """Return the settings of the Debezium connector.

    No secret among them: the password is a reference that Connect resolves.

    No secret is among them: the password is a reference that Connect resolves.
    """
    config = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": capture.host,
        "database.port": str(capture.port),
        "database.user": ROLE,
        "database.password": "${env:DEBEZIUM_PASSWORD}",
        "database.dbname": capture.database,
        "topic.prefix": capture.source_name,
        "plugin.name": "pgoutput",
        "slot.name": capture.slot,
        "slot.failover": "false",
        "publication.name": PUBLICATION,
        "publication.autocreate.mode": "disabled",
        "schema.include.list": ",".join(map(_pattern, _with_own(capture.schemas))),
        # Rows and the log position reach Kafka in one transaction: a crash repeats nothing.
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
        # Freshness: how long an idle task sleeps, and how often the slot moves on.
        "poll.interval.ms": "100",
        "heartbeat.interval.ms": "5000",
        "heartbeat.action.query": HEARTBEAT_QUERY,
        # A lost connection is taken up again after 2 seconds. Not for ever: meanwhile Connect calls the task running.
        "retriable.restart.connector.wait.ms": "2000",
        "errors.max.retries": "10",
        "max.batch.size": "8192",
        "max.queue.size": "32768",
        # Wide rows fill the heap before they fill the queue.
        "max.queue.size.in.bytes": str(64 * 1024 * 1024),
        "snapshot.mode": "initial",
        "snapshot.fetch.size": "5000",
        "incremental.snapshot.chunk.size": "4096",
        # Nobody reads these events, and they end the snapshot of a table that the connector hasn't met yet.
        "include.schema.changes": "false",
        "signal.enabled.channels": "source",
        "signal.data.collection": SIGNAL_TABLE,
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": f"{capture.source_name}.{NOTIFICATIONS}",
        "provide.transaction.metadata": "true",
        "skipped.operations": "none",
        "tombstones.on.delete": "true",
        # As text: the other modes have nothing for NaN and the infinities.
        "decimal.handling.mode": "string",
        # The columns tell their true names, types, precision and scale, which the lake's types are made of.
        "datatype.propagate.source.type": ".+",
        "schema.name.adjustment.mode": "avro",
        "time.precision.mode": "adaptive_time_microseconds",
        "interval.handling.mode": "string",
        "hstore.handling.mode": "json",
        "binary.handling.mode": "bytes",
        # A type that Debezium doesn't know arrives as bytes: an odd column rather than a missing one.
        "include.unknown.datatypes": "true",
        "field.name.adjustment.mode": "avro_unicode" if capture.escaped else "avro",
        "extended.headers.enabled": "false",
        # What it reads, and while it does, as OpenLineage events. Where they go, and without these settings in them:
        # infra/connect/openlineage.yml (decision 036).
        "openlineage.integration.enabled": "true",
        "openlineage.integration.config.file.path": "${env:LINEAGE_CONFIG}",
        "openlineage.integration.job.namespace": JOB_NAMESPACE,
        "unavailable.value.placeholder": capture.unavailable_value,
        # What Debezium's own conversion loses of values (infra/connect/java, decision 064).
        "converters": "values",
        "values.type": "lakehouse.connect.PostgresValues",
        "values.placeholder": capture.unavailable_value,
    }
    config["table.exclude.list"] = ",".join(map(_pattern, sorted({*capture.left_out, *UNREAD_TABLES})))
    if capture.excluded:
        config["column.exclude.list"] = ",".join(map(_pattern, sorted(capture.excluded)))
    return config | routing() | _topics(capture) | _converter("key", capture) | _converter("value", capture)


def _topics(capture: Capture) -> dict[str, str]:
    """Return table topics are partitioned by key; what concerns the whole source has one partition.

    All are kept equally long: the mirror reads the heartbeats too, and stops where records are gone that it needs. Only
    the schema log is kept for ever: old rows are read by it.
    """
    prefix = re.escape(capture.source_name)
    own = rf"{prefix}\.{OWN_SCHEMA}\.(heartbeat|signal|notifications)"
    single = rf"{own},{prefix}\.transaction,__debezium-heartbeat\.{prefix}"
    return {
        "topic.creation.enable": "true",
        "topic.creation.default.replication.factor": "-1",
        "topic.creation.default.partitions": str(capture.topic_partitions),
        "topic.creation.groups": "schemas,single",
        "topic.creation.schemas.include": rf"{prefix}\.{re.escape(SCHEMA_CHANGES)}",
        "topic.creation.schemas.replication.factor": "-1",
        "topic.creation.schemas.partitions": "1",
        "topic.creation.schemas.retention.ms": "-1",
        "topic.creation.single.include": single,
        "topic.creation.single.replication.factor": "-1",
        "topic.creation.single.partitions": "1",
    }


def _converter(side: str, capture: Capture) -> dict[str, str]:
    """Return the settings of Avro in Confluent's wire format, with the ids that the registry's Confluent API knows."""
    registry = f"{side}.converter.apicurio.registry"
    return {
        f"{side}.converter": "io.apicurio.registry.utils.converter.AvroConverter",
        f"{registry}.url": capture.registry_url,
        f"{registry}.auto-register": "true",
        f"{registry}.find-latest": "false",
        f"{registry}.as-confluent": "true",
        f"{registry}.use-id": "contentId",
        # The id of a schema never changes, so it isn't asked for anew every 30 seconds: while the registry is away,
        # only schemas wait that the task hasn't met yet. The requests have no time limit (see services.capture.stalls).
        f"{registry}.check-period-ms": str(24 * 60 * 60 * 1000),
        f"{registry}.headers.enabled": "false",
    }


def _with_own(schemas: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*schemas, OWN_SCHEMA]))


def _pattern(name: str) -> str:
    """Return a name as one of Debezium's comma-separated regular expressions, matching only itself, in its own case."""
    return "(?-i)" + re.escape(name).replace(",", r"\x2c")


def collection(table: str) -> str:
    """Return a table (``schema.table``) as a signal names it (see ``lakehouse.only`` in capture.sql)."""
    return table if re.fullmatch(r"[\w ]+\.[\w ]+", table) else re.escape(table)


_SCRIPTS = [Path(__file__).with_name(name) for name in ("capture.sql", "schema_log.sql")]
