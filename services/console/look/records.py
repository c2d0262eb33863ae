"""What the platform's own tables in the lake say: dead letters, checks, verification, upkeep, the audit trail."""

from datetime import UTC, datetime, timedelta

from pyiceberg.expressions import GreaterThanOrEqual

from pipelines.lake.names import MAINTENANCE
from pipelines.metrics.meter import Meter
from services.checker import record as checks
from services.console.house import House
from services.console.look.part import LakePart
from services.facts.letters import open_letters
from services.facts.tables import verified
from services.operations.audit_trail import entries
from services.stack.lake import own_table

SHOWN_DAYS, MOST_UPKEEP = 14, 500
UPKEEP_COLUMNS = ("table", "task", "why", "at", "seconds", "removed", "added", "bytes", "error")


class LettersPart(LakePart):
    """See Part."""

    name, every = "letters", 15.0

    def look(self, house: House, meter: Meter) -> None:
        """See Part."""
        house.letters = open_letters(self.catalog(), house.letters)
        counts = house.letters.counts
        meter.put_all("lakehouse_dead_letters", {(g["topic"], g["reason"]): float(g["letters"]) for g in counts})
        oldest: dict[tuple[str, ...], float] = {}
        for group in counts:
            key = (group["topic"],)
            oldest[key] = min(oldest.get(key, float("inf")), group["oldest"].timestamp())
        meter.put_all("lakehouse_oldest_dead_letter_timestamp_seconds", oldest)


class ChecksPart(LakePart):
    """See Part."""

    name, every = "checks", 30.0

    def look(self, house: House, meter: Meter) -> None:
        """See Part."""
        found = checks.newest(self.catalog())
        house.checks = found
        promises: dict[tuple[str, ...], float] = {}
        for name, run in found.items():
            if not run.error:
                promises[name, "kept"] = run.kept
                promises[name, "broken"], promises[name, "not_asked"] = run.failed, run.not_asked
        meter.put_all("lakehouse_table_promises", promises)
        meter.put_all("lakehouse_table_check_failed", {(name,): float(run.couldnt_ask) for name, run in found.items()})


class VerificationPart(LakePart):
    """See Part."""

    name, every = "verification", 15.0

    def look(self, house: House, meter: Meter) -> None:
        """See Part."""
        found = verified(self.catalog())
        house.verification = found
        called = {view.facts.source_table: name for name, view in house.tables.items() if view.facts.source_table}
        states = {called[table]: state for table, state in found.items() if table in called}
        meter.put_all("lakehouse_table_differences", {(n,): float(s.differences) for n, s in states.items()})
        meter.put_all("lakehouse_table_verified_timestamp_seconds",
                      {(n,): s.verified.at.timestamp() for n, s in states.items() if s.verified})  # fmt: skip


class AuditPart(LakePart):
    """See Part."""

    name, every = "audit", 20.0

    def look(self, house: House, meter: Meter) -> None:
        """See Part."""
        del meter
        since = datetime.now(UTC) - timedelta(days=SHOWN_DAYS)
        catalog = self.catalog()
        house.audit = tuple(entries(catalog, since))
        done = own_table(catalog, MAINTENANCE)
        if done is not None:
            rows = done.scan(GreaterThanOrEqual(term="at", value=since.isoformat()), selected_fields=UPKEEP_COLUMNS)
            newest = rows.to_arrow().sort_by([("at", "descending")]).slice(0, MOST_UPKEEP)
            house.upkeep = tuple(newest.to_pylist())
