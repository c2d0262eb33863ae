"""A whole stack of its own, with its own ports, secrets and state, driven through make and lakehouse."""

import json
import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, chdir, contextmanager
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import psutil
import psycopg
from confluent_kafka import Producer
from dotenv import dotenv_values
from pyiceberg.catalog import Catalog, load_catalog
from tenacity import RetryError, retry, retry_if_result, stop_after_delay, wait_exponential
from typer.testing import CliRunner

from pipelines import failpoints
from pipelines.mirror.jit import QUICK_COMPILER
from pipelines.sources.kinds import source_topics
from pipelines.specs.load import load_specs
from services.cli.main import app
from services.operations.faults.network import Network
from services.operations.faults.switch import Faults
from services.stack.endpoints import StackSettings
from services.stack.offsets import KafkaOffsets
from services.stack.position import Deadline, wait_until_published
from tests.integration.oracles import Oracles

CHECKOUT = Path(__file__).resolve().parents[2]
COPIED = ("Makefile", "docker-compose.yml", "infra", "services", "pipelines", "quality", "lineage", "pyproject.toml",
          ".dockerignore", "requirements.in", "requirements.lock", "requirements-dev.lock")  # fmt: skip
PORTS = (
    "SOURCE_DB", "METADATA_DB", "OBJECT_STORE", "KAFKA", "KAFKA_INTERNAL", "KAFKA_CONTROLLER", "SCHEMA_REGISTRY",
    "CONNECT", "CONNECT_SINK", "TRINO", "CATALOG", "LINEAGE", "SPARK_UI", "STREAMS_UI", "SPARK_MASTER",
    "SPARK_MASTER_UI",
    "SPARK_WORKER_UI", "CONSOLE", "PROMETHEUS", "ALERTMANAGER", "MIRROR_METRICS", "STREAMS_METRICS", "CAPTURE_METRICS",
    "VERIFIER_METRICS", "CHECKER_METRICS", "PUBLISHER_METRICS", "SHOP_METRICS", "PRODUCERS_METRICS", "KAFKA_METRICS",
    "CONNECT_METRICS", "CATALOG_METRICS", "POSTGRES_METRICS",
    "FAULTS", "FAULTS_CATALOG", "FAULTS_OBJECT_STORE", "FAULTS_SCHEMA_REGISTRY", "FAULTS_KAFKA", "FAULTS_SOURCE_DB",
)  # fmt: skip
# The last of what a JVM prints when it is asked for its threads, and those of a connector's task.
DUMPED = "JNI global refs"
CAPTURES_THREADS = r'"[^"]*(task-thread|debezium|connector-producer)'
PROXIES, CLUSTER = "infra/faults/proxies.yml", "infra/spark/cluster.yml"
# What a condition may take on a machine that is much slower, or busy with other things.
WAIT_SECONDS = 600
PYTHON = str(CHECKOUT / ".lakehouse/toolchain/venv/bin/python")
# Tables of which something else is asked than of all.
SPECS = {
    "patient": "table: public.patient\nfreshness_seconds: 3600\n",
    "settled": "table: public.settled\nschema_changes: {rename: freeze}\n",
    "lagging": "table: public.lagging\nschema_changes: {rename: freeze}\n",
    "signups": "kind: events\ntable: events.signups\ntopic: signups\nevent_time: {column: at}\n"
    "schema_changes: {change: discard_row}\n",
    "badges": "kind: events\ntable: events.badges\ntopic: badges\ncolumns: {id: long, at: timestamptz, door: string}\n"
    "event_time: {column: at}\n",
    "marts.spent": """
kind: derived
table: marts.spent
key: [buyer]
update: incremental
freshness_seconds: 2
announce: {topic: alerts.spent, key: buyer}
inputs:
  buyers: {table: shop.buyers, affects: SELECT id AS buyer FROM changed}
  bills: {table: shop.bills, affects: SELECT buyer FROM changed WHERE buyer IS NOT NULL}
sql: |
  SELECT b.id AS buyer, b.name, count(l.id) AS bills, coalesce(sum(l.amount), 0) AS spent
  FROM buyers b LEFT JOIN bills l ON l.buyer = b.id GROUP BY b.id, b.name
""",
    "laid_out": "table: public.laid_out\nlayout: {partition: ['bucket(2, id)', month(at)], sort: [note]}\n",
}
CONTRACTS = {
    "guarded": """
apiVersion: v3.2.0
kind: DataContract
id: guarded
version: 1.0.0
status: active
team: {members: [{username: guards, role: owner}]}
schema:
  - name: guarded
    physicalName: public.guarded
    description: Rows that are looked at.
    properties:
      - {name: id, logicalType: integer, primaryKey: true, primaryKeyPosition: 1}
      - name: mail
        logicalType: string
        classification: personal
        logicalTypeOptions: {pattern: "^[^@]+@[^@]+$"}
        customProperties: [{property: onViolation, value: "null"}]
      - name: amount
        logicalType: number
        logicalTypeOptions: {minimum: 0}
        customProperties: [{property: onViolation, value: reject}]
      - {name: state, logicalType: string, enum: [{value: open}, {value: closed}]}
    quality:
      - type: custom
        engine: lakehouse
        name: what is closed was paid
        implementation: state <> 'closed' OR 100 / amount > 0
        customProperties: [{property: onViolation, value: reject}]
""",
    "audited": """
apiVersion: v3.2.0
kind: DataContract
id: audited
version: 1.0.0
status: active
schema:
  - name: audited
    physicalName: public.audited
    properties:
      - {name: id, logicalType: integer, primaryKey: true, primaryKeyPosition: 1}
      - name: mail
        logicalType: string
        classification: personal
        unique: true
        required: true
        logicalTypeOptions: {pattern: "^[^@]+@[^@]+$"}
      - {name: state, logicalType: string, enum: [{value: open}, {value: closed}]}
    quality:
      - {type: library, metric: rowCount, mustBeBetween: [1, 10]}
      - type: sql
        name: as many as there are guards
        query: SELECT count(*) - 4 FROM ${table}
        mustBe: 0
""",
    "shielded": """
apiVersion: v3.2.0
kind: DataContract
id: shielded
version: 1.0.0
status: active
schema:
  - name: shielded
    physicalName: public.shielded
    properties:
      - {name: id, logicalType: integer, primaryKey: true, primaryKeyPosition: 1}
      - name: mail
        logicalType: string
        classification: personal
        logicalTypeOptions: {pattern: "^[^@]+@[^@]+$"}
        customProperties: [{property: onViolation, value: reject}]
      - {name: born, logicalType: date, customProperties: [{property: protection, value: tokenise}]}
      - {name: phone, logicalType: string, customProperties: [{property: protection, value: mask}]}
      - {name: diary, logicalType: string, customProperties: [{property: protection, value: encrypt}]}
      - {name: pin, logicalType: integer, customProperties: [{property: protection, value: drop}]}
    customProperties: [{property: protect, value: {personal: hash}}]
""",
    "shown": """
apiVersion: v3.2.0
kind: DataContract
id: shown
version: 1.0.0
status: active
roles:
  - role: restricted
    access: read
    customProperties:
      - {property: shows, value: all}
      - {property: protect, value: {personal: drop, mail: hash}}
      - {property: rows, value: state <> 'secret'}
schema:
  - name: shown
    physicalName: public.shown
    properties:
      - {name: id, logicalType: integer, primaryKey: true, primaryKeyPosition: 1}
      - {name: mail, logicalType: string, classification: personal}
      - {name: phone, logicalType: string, classification: personal}
      - {name: state, logicalType: string}
""",
    "forgotten": """
apiVersion: v3.2.0
kind: DataContract
id: forgotten
version: 1.0.0
status: active
roles: [{role: restricted, customProperties: [{property: shows, value: all}]}]
schema:
  - name: forgotten
    physicalName: public.forgotten
    properties:
      - {name: id, logicalType: integer, primaryKey: true, primaryKeyPosition: 1}
      - {name: name, logicalType: string}
      - name: mail
        logicalType: string
        logicalTypeOptions: {pattern: "^[^@]+@[^@]+$"}
        customProperties: [{property: onViolation, value: reject}]
""",
    "spent": """
apiVersion: v3.2.0
kind: DataContract
id: spent
version: 1.0.0
status: active
roles: [{role: restricted, customProperties: [{property: shows, value: [buyer, spent]}]}]
schema:
  - name: spent
    physicalName: marts.spent
    properties:
      - {name: buyer, logicalType: integer, primaryKey: true, primaryKeyPosition: 1}
      - {name: name, logicalType: string}
      - {name: bills, logicalType: integer}
      - {name: spent, logicalType: number, logicalTypeOptions: {minimum: 0}}
    customProperties: [{property: blocking, value: true}]
""",
    "badges": """
apiVersion: v3.2.0
kind: DataContract
id: badges
version: 1.0.0
status: active
roles: [{role: restricted, customProperties: [{property: shows, value: [id]}]}]
schema:
  - name: badges
    physicalName: events.badges
    properties:
      - {name: id, logicalType: integer}
      - {name: at, logicalType: timestamp}
      - {name: door, logicalType: string}
    quality:
      - type: sql
        name: each has a host
        query: SELECT count(*) FROM ${table} WHERE id NOT IN (SELECT id FROM lake.shop.hosts)
        mustBe: 0
    customProperties: [{property: blocking, value: true}]
""",
    "published": """
apiVersion: v3.2.0
kind: DataContract
id: published
version: 1.0.0
status: active
schema:
  - name: published
    physicalName: public.published
    properties:
      - {name: id, logicalType: integer, primaryKey: true, primaryKeyPosition: 1}
      - {name: name, logicalType: string, unique: true, required: true}
    customProperties: [{property: blocking, value: true}]
""",
}
# Below the kernel's range for outgoing connections, or a probe of a port that nobody listens on yet could meet itself.
PORT_RANGE = range(21_000, 32_000)
# As on a company's machines, but nobody listens there: whatever goes to the stack's own servers this way fails.
DEAD_PROXY = dict.fromkeys(
    ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9"
)
PAST_PROXIES = ("no_proxy", "NO_PROXY")


class Stack:
    """The stack of one folder, which looks like a checkout: the code and the toolchain are links to this one's.

    ``overlays``: files laid over docker-compose.yml, such as ``PROXIES``.
    """

    # Servers that live for some minutes, and whose load is small.
    server_java_options = QUICK_COMPILER
    publish_seconds: float = WAIT_SECONDS
    # The environment's, for all that is started.
    proxies: Mapping[str, str] = MappingProxyType({})

    def __init__(self, folder: Path, runner: str, *overlays: str) -> None:
        self.folder, self.runner = folder, runner
        self.files = ["docker-compose.yml", *overlays]

    def prepare(self) -> None:
        """Copy the code into the folder, lend it this checkout's toolchain, and give it ports that are free now."""
        for name in COPIED:
            source = CHECKOUT / name
            if source.is_dir():
                shutil.copytree(source, self.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, self.folder / name)
        # Each of them asks of the shop's tables, whatever tests do to these; they are tested by themselves.
        for shipped in load_specs(self.folder / "pipelines/specs").derived:
            (self.folder / f"pipelines/specs/{shipped}.yaml").unlink()
            (self.folder / f"quality/contracts/{shipped}.yaml").unlink()
        for name, said in SPECS.items():
            (self.folder / f"pipelines/specs/{name}.yaml").write_text(said)
        for name, said in CONTRACTS.items():
            (self.folder / f"quality/contracts/{name}.yaml").write_text(said)
        (self.folder / ".lakehouse").mkdir()
        (self.folder / ".lakehouse/toolchain").symlink_to(CHECKOUT / ".lakehouse/toolchain")
        ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        settings = {**{f"{name}_PORT": port for name, port in ports.items()}, "TABLE_TOPIC_PARTITIONS": 3,
                    "OBSERVE": 1, "CHECK_SECONDS": 86400, "PUBLISH_SECONDS": 2,
                    "SERVER_JAVA_OPTIONS": self.server_java_options}  # fmt: skip
        (self.folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        (self.folder / ".env").chmod(0o600)
        self._run([sys.executable, "-m", "infra.toolchain", "env"], 60)

    def up(self) -> str:
        """`make up` without its installing, since the toolchain is lent."""
        return self._run([PYTHON, "-m", "services.runner", "up"], 900)

    def start(self, service: str) -> None:
        """Start a service that `up` leaves out, and wait until it is healthy."""
        self._run([PYTHON, "-m", "services.runner", "up", service], 900)

    def make(self, *arguments: str, timeout: float = 600) -> str:
        """Run a make target; its output, or an AssertionError with it."""
        return self._run(["make", "--no-print-directory", *arguments], timeout)

    def lakehouse(self, *arguments: str, ok: tuple[int, ...] = (0,)) -> Any:
        """Run a `lakehouse` command with --json, in this process; what it printed, parsed."""
        if arguments[0] in ("wait", "verify") and not {"--timeout", "--continuous", "--ledger"} & set(arguments):
            arguments = (*arguments, "--timeout", str(WAIT_SECONDS))
        with chdir(self.folder):
            done = CliRunner().invoke(app, [*arguments, "--json"])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code in ok, f"lakehouse {' '.join(arguments)} exited {done.exit_code}\n{done.output}"
        return json.loads(done.stdout)

    def own(self, *arguments: str, ok: tuple[int, ...] = (0,)) -> Any:
        """The same with this stack's own code, specs and contracts, in a process of its own."""
        command = [PYTHON, "-c", "from services.cli.main import app; app()", *arguments, "--json"]
        return json.loads(self._run(command, WAIT_SECONDS, ok))

    def bash(self, script: str) -> str:
        """Run a script in the folder; what it printed, or an AssertionError with it."""
        return self._run(["bash", "-c", script], 900)

    def status(self) -> str:
        """What `make status` shows, whether all is well or not."""
        return self._run([PYTHON, "-m", "services.runner", "status"], WAIT_SECONDS, ok=(0, 1))

    @cached_property
    def endpoints(self) -> dict[str, str]:
        """What `lakehouse env` says."""
        return dict(json.loads(self._run([str(Path(PYTHON).with_name("lakehouse")), "env", "--json"], WAIT_SECONDS)))

    @contextmanager
    def source(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection to the shop database, each statement a transaction."""
        own = "-c search_path=public -c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
        with psycopg.connect(self.endpoints["source_dsn"], autocommit=True, options=own) as connection:
            yield connection

    def sql(self, *statements: str) -> None:
        """Run statements in the source, each in a transaction of its own."""
        with self.source() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def produce(self, table: str, *values: bytes, key: bytes | None = b"poison", partition: int = 0,
                headers: list[tuple[str, str | bytes | None]] | None = None) -> None:  # fmt: skip
        """Write records to the topic of a table of the schema `public`, in this order, past the connector."""
        producer = Producer({"bootstrap.servers": self.endpoints["kafka_bootstrap"]})
        for value in values:
            producer.produce(f"shop.public.{table}", value, key, partition, headers=headers or [])
        assert producer.flush(WAIT_SECONDS) == 0

    def assert_equal(self, *tables: str) -> Any:
        """O1 to O6 of SCENARIOS.md: everything committed is visible, `verify` finds no difference, every offset is in
        one commit of its table and accounted for, and what tests.integration.oracles asks of every snapshot and file.
        """
        self.lakehouse("wait", "--timeout", str(WAIT_SECONDS))
        report = self.lakehouse("verify", *tables, ok=(0, 1))
        assert report["equal"], json.dumps(report, indent=1)[:4000]
        ledgers = self.lakehouse("verify", "--ledger", *tables, ok=(0, 1))
        assert ledgers["whole"], json.dumps(ledgers, indent=1)[:4000]
        problems = self.oracles.problems(*tables)
        assert not problems, "\n".join(problems[:40])
        return report

    @contextmanager
    def redirected(self, service: str = "mirror", **settings: str) -> Iterator[None]:
        """A service started anew with other settings, and with its own again after the block."""
        overlay = ".lakehouse/redirected.yml"
        content = {"services": {service: {"environment": settings}}}
        (self.folder / overlay).write_text(json.dumps(content), encoding="utf-8")
        self.files.append(overlay)
        try:
            self.up()
            yield
        finally:
            self.files.remove(overlay)
            self.up()

    @cached_property
    def faults(self) -> Faults:
        """What `make fault` switches."""
        return Faults(
            self.failpoints, Network(f"http://127.0.0.1:{dotenv_values(self.folder / '.env')['FAULTS_PORT']}")
        )

    def transactions(self) -> int:
        """How many transactions the source has begun, which only grows: for how long a fault has lasted."""
        with self.source() as source:
            row = source.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").fetchone()
        assert row is not None
        return int(row[0])

    @property
    def failpoints(self) -> Path:
        """Where the mirror's failpoints are armed (process runner)."""
        return self.folder / ".lakehouse/data/mirror/failpoints"

    def fired(self, failpoint: str) -> bool:
        """Whether the mirror has come to a failpoint since it was armed."""
        return failpoints.fired(self.failpoints, failpoint)

    @cached_property
    def oracles(self) -> Oracles:
        """The checks of snapshots and files, with what they have read so far."""
        return Oracles(self.settings)

    @cached_property
    def settings(self) -> StackSettings:
        """Endpoints and credentials of a person outside."""
        return StackSettings.load(self.folder / ".env")

    def published(self) -> None:
        """Return once Kafka holds everything that is committed in the source."""
        wait_until_published(self.settings, Deadline(self.publish_seconds))

    def catalog(self, role: str | None = None) -> Catalog:
        """The lake's catalog, for PyIceberg, with a role's credentials."""
        env = self.endpoints if role is None else self.lakehouse("env", "--role", role)
        return load_catalog("lake", **{
            "type": "rest", "uri": env["catalog_uri"], "s3.endpoint": env["s3_endpoint"], "s3.region": env["s3_region"],
            "s3.access-key-id": env["s3_access_key"], "s3.secret-access-key": env["s3_secret_key"],
        })  # fmt: skip

    def positions(self) -> int:
        """How many offsets of the captured topics are in the lake, by what the mirror's consumer group says."""
        return sum(
            KafkaOffsets(self.endpoints["kafka_bootstrap"], source_topics("shop", ("public",))).mirrored().values()
        )

    def moves_on(self, by: int = 0) -> None:
        """Return once more than ``by`` offsets have come into the lake from now on; tenacity.RetryError as
        :func:`wait_until`.
        """
        target = self.positions() + by
        wait_until(lambda: self.positions() > target)

    def report(self) -> Any:
        """What `make status` tells programs."""
        return json.loads(self._run([PYTHON, "-m", "services.runner", "status", "--json"], WAIT_SECONDS, (0, 1)))

    def processes(self, service: str) -> list[psutil.Process]:
        """A service's process and what it has started (process runner)."""
        pid = next(found["pid"] for found in self.report()["services"] if found["name"] == service)
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]

    @cached_property
    def mirror_environment(self) -> dict[str, str]:
        """What the stack's mirror runs in (process runner)."""
        script = (self.folder / ".lakehouse/run/services/mirror.sh").read_text(encoding="utf-8")
        exports = (shlex.split(line)[1] for line in script.splitlines() if line.startswith("export "))
        return dict(export.split("=", 1) for export in exports)

    def metrics(self, service: str) -> str:
        """What a service tells at /metrics."""
        port = {"console": "CONSOLE_PORT", "lineage": "LINEAGE_PORT"}.get(service, f"{service.upper()}_METRICS_PORT")
        return httpx.get(f"http://127.0.0.1:{self.setting(port)}/metrics", trust_env=False, timeout=30).text

    @contextmanager
    def frozen(self, service: str) -> Iterator[None]:
        """Have a service answer nobody meanwhile (process runner)."""
        frozen = self.processes(service)
        for process in frozen:
            process.suspend()
        try:
            yield
        finally:
            for process in frozen:
                process.resume()

    def log(self, service: str) -> str:
        """What a service has said so far (process runner)."""
        return (self.folder / f".lakehouse/logs/{service}.log").read_text(encoding="utf-8")

    def said(self, service: str) -> Callable[[], list[dict[str, Any]]]:
        """What asks for the lines that a service has logged since (process runner)."""
        before = len(self.log(service))
        return lambda: [json.loads(line) for line in self.log(service)[before:].splitlines() if line.startswith("{")]

    def connector(self, command: str) -> None:
        """Have Connect stop or resume the connector."""
        httpx.put(f"{self.endpoints['connect_url']}/connectors/shop/{command}", timeout=60).raise_for_status()

    def setting(self, name: str) -> str:
        """A setting of this stack, from its .env."""
        lines = (self.folder / ".env").read_text().splitlines()
        return next(line.split("=", 1)[1].strip("'\"") for line in lines if line.startswith(f"{name}="))

    @property
    def secrets(self) -> list[str]:
        """The passwords and keys of this stack, from its .env."""
        settings = (line.partition("=") for line in (self.folder / ".env").read_text().splitlines())
        values = (value.strip("'\"") for name, _, value in settings if name.endswith(("_PASSWORD", "_KEY")))
        found = [value for value in values if value]
        assert len(found) > 10
        return found

    def run_shop(self, *arguments: str) -> Any:
        """Run a command of the shop to its end; what it printed, parsed."""
        return json.loads(self._run([PYTHON, "-m", "services.shop", *arguments, "--json"], WAIT_SECONDS))

    def run_producers(self, *arguments: str) -> Any:
        """Run a command of the producers of event streams to its end; what it printed, parsed."""
        return json.loads(self._run([PYTHON, "-m", "services.producers", *arguments, "--json"], WAIT_SECONDS))

    @contextmanager
    def workload(self, rate: int = 20, seed: int = 7, survives: bool = True) -> Iterator[None]:
        """Live transactions against the shop while the block runs; stopped by SIGTERM.

        It must end well, unless it doesn't survive the block because its database was killed.
        """
        command = [PYTHON, "-m", "services.shop", "run", "--rate", str(rate), "--duration", "900",
                   "--connections", "2", "--seed", str(seed), "--json"]  # fmt: skip
        process = subprocess.Popen(command, cwd=self.folder, env=self._environment(), stdout=subprocess.PIPE, text=True)
        try:
            wait_until(lambda: self._works() or process.poll() is not None)
            yield
        finally:
            process.terminate()
            output, _ = process.communicate(timeout=60)
        assert (process.returncode == 0) is survives, output

    def _works(self) -> bool:
        """Whether a workload has connected to the shop, and so knows what to do when it is told to stop."""
        with self.source() as source:
            found = source.execute("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'shop')")
            return found.fetchone() == (True,)

    def diagnosis(self) -> str:
        """What a person would look at first when a test has failed: the services, the ends of the logs, and what
        capture's task waits for.
        """
        names = ("capture", "connect", "mirror", "spark-master", "spark-worker")
        parts = {"status": self._shown("status"), "threads of connect": self._threads_of_connect()}
        parts |= {f"logs of {name}": self._shown("logs", name, "--lines", "40") for name in names}
        return "\n\n".join("\n".join([name, *lines]) for name, lines in parts.items())

    def _shown(self, *command: str) -> list[str]:
        """What the runner prints, without the frames of stack traces, which would leave no room for what matters."""
        lines = self._run([PYTHON, "-m", "services.runner", *command], WAIT_SECONDS, ok=tuple(range(256))).splitlines()
        return [line[:400] for line in lines if "\tat " not in line]

    def _threads_of_connect(self) -> list[str]:
        """What the threads that capture runs in are doing, as Connect's JVM says when it is asked by a signal."""
        try:
            if self.runner == "compose":
                self.bash("docker compose exec -T connect /bin/sh -c 'kill -QUIT -1'")
            else:
                for process in self.processes("connect"):
                    if process.name() == "java":
                        process.send_signal(signal.SIGQUIT)
            logs = [PYTHON, "-m", "services.runner", "logs", "connect", "--lines", "3000"]
            wait_until(lambda: DUMPED in self._run(logs, WAIT_SECONDS), seconds=30)
            dump = self._run(logs, WAIT_SECONDS).rpartition("Full thread dump")[2]
        except (AssertionError, RetryError, StopIteration, psutil.Error) as error:
            return [f"not known: {type(error).__name__}: {str(error)[:400]}"]
        threads = [re.sub(r"^[^\n]*?\| ", "", line) for line in dump.splitlines()]
        blocks = [block for block in "\n".join(threads).split("\n\n") if re.match(CAPTURES_THREADS, block)]
        return [line[:200] for block in blocks for line in [*block.splitlines()[:16], ""]]

    def _run(self, command: list[str], timeout: float, ok: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self._environment(),
            timeout=timeout,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in ok, f"{' '.join(command)} exited {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _environment(self) -> dict[str, str]:
        # What this process has learnt to reach without a proxy, another one must learn by itself.
        ours = {name: value for name, value in os.environ.items() if not (self.proxies and name in PAST_PROXIES)}
        return {**ours, **self.proxies, "RUNNER": self.runner, "COLUMNS": "", "COMPOSE_FILE": ":".join(self.files)}


@contextmanager
def loaded(folder: Path, *overlays: str) -> Iterator[Stack]:
    """A stack of the process runner with a small shop in it, which the lake equals; down after the block."""
    running = Stack(folder, "process", *overlays)
    running.prepare()
    with with_shop(running):
        yield running


@contextmanager
def with_shop(prepared: Stack) -> Iterator[None]:
    """Have a stack that is prepared up, with a small shop in it, which the lake equals; down after the block."""
    try:
        prepared.up()
        prepared.run_shop("load", "--scale", "0.02")
        prepared.assert_equal()
        yield
    finally:
        prepared.make("down")


def wait_until(condition: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
    """Return once ``condition`` holds; tenacity.RetryError when it doesn't in time."""
    again = retry_if_result(lambda held: not held)
    retry(stop=stop_after_delay(seconds), wait=wait_exponential(0.2, max=2), retry=again)(condition)()


def free_ports(count: int) -> list[int]:
    """So many ports of this machine that nobody listens on."""
    with ExitStack() as open_sockets:
        return [_free_port(open_sockets) for _ in range(count)]


def _free_port(sockets: ExitStack) -> int:
    while True:
        listener, port = sockets.enter_context(socket.socket()), random.choice(PORT_RANGE)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            continue
        return port
