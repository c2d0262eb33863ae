"""The systems that are measured."""

from tests.bench.systems.base import Job, Launch, System
from tests.bench.systems.connect_sink import ConnectSink
from tests.bench.systems.flink import Flink, FlinkSql
from tests.bench.systems.lakehouse import FreshLakehouse, Lakehouse, PatientLakehouse
from tests.bench.systems.spark import Append, Tutorial

SYSTEMS: dict[str, System] = {
    found.name: found
    for found in (
        Lakehouse(),
        FreshLakehouse(),
        PatientLakehouse(),
        Append(),
        Tutorial(),
        Flink(),
        FlinkSql(),
        ConnectSink(),
    )
}

__all__ = ["SYSTEMS", "Job", "Launch", "System"]
