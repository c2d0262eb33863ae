"""What is written to the source: seeded, through real transactions, so that the topics are what Debezium writes."""

from tests.bench.workloads.base import Workload
from tests.bench.workloads.events import Events
from tests.bench.workloads.lineitem import Lineitem
from tests.bench.workloads.several import Several
from tests.bench.workloads.shop import Shop
from tests.bench.workloads.wide import Wide

WORKLOADS: dict[str, Workload] = {
    found.name: found
    for found in (Shop(), Wide("hot-tail"), Wide("uniform"), Wide("zipf"), Several(), Lineitem(), Events())
}
# The table that merge curves are measured on.
CURVE = Wide("hot-tail", "curve")

__all__ = ["CURVE", "WORKLOADS", "Workload"]
