"""What a result depends on besides the code: the machine, and the versions of what was measured."""

import os
import platform
import re
import subprocess
from pathlib import Path

import psutil

from tests.bench.results import Machine
from tests.integration.stack import CHECKOUT

GIBI = 1 << 30
# Jars whose version is part of a result: a name's beginning to what it is called.
TOLD = {
    "iceberg-spark-runtime": "Iceberg", "kafka_2.13": "Kafka", "debezium-connector-postgres": "Debezium",
    "apicurio-registry-utils-converter": "Avro converter", "flink-runtime": "Flink",
    "iceberg-flink-runtime": "Iceberg for Flink", "iceberg-kafka-connect": "Iceberg sink of Kafka Connect",
}  # fmt: skip
PACKAGES = ("pyspark", "duckdb", "pyiceberg", "pyarrow")
_VERSION = re.compile(r"-(\d[\w.]*)\.jar$")


def machine() -> Machine:
    """This one."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()
    models = re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return Machine(
        cores=len(os.sched_getaffinity(0)), memory_gib=round(psutil.virtual_memory().total / GIBI, 1),
        processor=models[0] if models else platform.machine(), kernel=platform.release(),
        python=platform.python_version(), java=java[0] if java else "?", load_before=round(os.getloadavg()[0], 2),
    )  # fmt: skip


def versions() -> dict[str, str]:
    """Of the servers and libraries, as they are installed."""
    from importlib.metadata import version

    found = {name: version(name) for name in PACKAGES}
    for jar in sorted((CHECKOUT / ".lakehouse/toolchain/jars").rglob("*.jar")):
        for beginning, name in TOLD.items():
            match = _VERSION.search(jar.name)
            if jar.name.startswith(f"{beginning}-") and match:
                found.setdefault(name, match[1])
    return found


def commit() -> str:
    """What is checked out here, with a plus if it was changed."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty=+"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "?"
