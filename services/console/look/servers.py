"""What servers say of themselves: the source and its connector, Prometheus, Alertmanager, the disk."""

import shutil
from pathlib import Path
from typing import Any

from pipelines.metrics.meter import Meter
from services.capture.settings import StatusSettings
from services.capture.status import report
from services.console.house import House
from services.console.look.part import ServerPart

# Ours tell what they have started as well; MinIO has a name of its own; PostgreSQL's exporter tells none.
MEMORY = (
    "lakehouse_service_memory_bytes", "process_resident_memory_bytes", "minio_node_process_resident_memory_bytes",
)  # fmt: skip


class CapturePart:
    """See Part."""

    name, every = "capture", 10.0

    def look(self, house: House, meter: Meter) -> None:
        """See Part."""
        found = report(StatusSettings.load())
        house.capture = found
        meter.put("lakehouse_connector_running", float(found.healthy))
        meter.put("lakehouse_tables_captured", len(found.tables))
        if found.wal_held_bytes is not None:
            meter.put("lakehouse_slot_held_bytes", found.wal_held_bytes)
        if found.wal_bound_bytes is not None:
            meter.put("lakehouse_slot_bound_bytes", found.wal_bound_bytes)


class PrometheusPart(ServerPart):
    """See Part."""

    name, every = "prometheus", 10.0

    def look(self, house: House, meter: Meter) -> None:
        """See Part."""
        del meter
        house.targets = {labels["job"]: value == 1 for labels, value in self._ask("up")}
        house.visible_lag = self._by_table("lakehouse_table_visible_lag_seconds")
        house.current_age = self._by_table("time() - lakehouse_table_current_timestamp_seconds")
        house.memory = {labels["job"]: value for labels, value in self._ask(" or ".join(MEMORY))}

    def _by_table(self, query: str) -> dict[str, float]:
        return {labels["table"]: value for labels, value in self._ask(query)}

    def _ask(self, query: str) -> list[tuple[dict[str, str], float]]:
        answer = self._client.get("/api/v1/query", params={"query": query}).raise_for_status().json()
        return [(each["metric"], float(each["value"][1])) for each in answer["data"]["result"]]


class AlertsPart(ServerPart):
    """See Part."""

    name, every = "alertmanager", 5.0

    def look(self, house: House, meter: Meter) -> None:
        """See Part."""
        del meter
        alerts: list[dict[str, Any]] = self._client.get("/api/v2/alerts").raise_for_status().json()
        silences: list[dict[str, Any]] = self._client.get("/api/v2/silences").raise_for_status().json()
        house.alerts = tuple(sorted(alerts, key=lambda alert: alert["startsAt"], reverse=True))
        house.silences = tuple(each for each in silences if each["status"]["state"] == "active")


class DiskPart:
    """See Part."""

    name, every = "disk", 30.0

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def look(self, house: House, meter: Meter) -> None:
        """See Part."""
        usage = shutil.disk_usage(self._folder)
        house.disk = (usage.free, usage.total)
        meter.put("lakehouse_disk_free_bytes", usage.free)
        meter.put("lakehouse_disk_size_bytes", usage.total)
