"""The first page: is all well, how fresh is everything, what is wrong, since when."""

from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import APIRouter, Request, Response

from services.console.accounts import Viewer
from services.console.context import Console
from services.console.house import House
from services.console.rows import STATES, TableRow, table_rows

WORST = 8


@dataclass(frozen=True)
class Stage:
    """A stage of the pipeline, as it is drawn. ``state``: ok, bad, or unknown."""

    name: str
    says: str
    rate: float | None
    state: str
    link: str = ""


@dataclass(frozen=True)
class Trouble:
    """Something that is wrong. ``since``: None: not known. ``unseen``: it isn't known what else may be."""

    what: str
    since: datetime | None
    link: str
    severity: str
    unseen: bool = False


def router(console: Console) -> APIRouter:
    """Return the page's routes."""
    routes = APIRouter()

    @routes.get("/")
    def overview(request: Request, who: Viewer) -> Response:
        return console.page(request, who, "overview.html", part=False, **_values(console.house))

    @routes.get("/overview/part")
    def part(request: Request, who: Viewer) -> Response:
        return console.page(request, who, "overview_part.html", part=True, **_values(console.house))

    @routes.get("/api/overview")
    def as_json(who: Viewer) -> dict[str, object]:
        del who
        rows = table_rows(console.house)
        return {
            "tables": [row.plain() for row in rows], "into": console.house.progress.into,
            "shown": console.house.progress.shown, "unseen": {p: x.error for p, x in console.house.unseen.items()},
            "troubles": [{"what": each.what, "since": each.since} for each in troubles(console.house, rows)],
        }  # fmt: skip

    return routes


def _values(house: House) -> dict[str, object]:
    rows = table_rows(house)
    known = [row for row in rows if row.fresh is not None]
    verified = [row for row in rows if row.kind == "mirror"]
    ages = sorted(row.fresh for row in known if row.fresh is not None)
    worst = sorted((row for row in rows if row.state != "ok"), key=lambda row: STATES.index(row.state))
    return {
        "rows": rows, "troubles": troubles(house, rows), "stages": stages(house, rows), "house": house,
        "worst": worst[:WORST], "differing": sum(row.differences for row in rows),
        "verified": sum(row.verified_at is not None and not row.differences for row in verified),
        "to_verify": len(verified), "letters": sum(row.letters for row in rows),
        "oldest_proof": min((row.verified_at for row in verified if row.verified_at), default=None),
        "p50": ages[len(ages) // 2] if ages else None, "worst_age": ages[-1] if ages else None,
        "untold": sorted(job for job, up in house.targets.items() if up and job not in house.memory),
        "within": sum(row.asked is None or (row.fresh or 0) <= row.asked for row in known), "known": len(known),
    }  # fmt: skip


def troubles(house: House, rows: list[TableRow]) -> list[Trouble]:
    """Return what is wrong, worst first: alerts, what can't be seen, and tables that aren't as they should be."""
    found = [
        Trouble(
            alert["annotations"].get("summary", alert["labels"].get("alertname", "")),
            datetime.fromisoformat(alert["startsAt"].replace("Z", "+00:00")), "/alerts",
            alert["labels"].get("severity", "ticket"),
        )
        for alert in house.alerts if alert["status"]["state"] == "active"
    ]  # fmt: skip
    found += [
        Trouble(f"{part} can't be seen: {looked.error}", looked.since, "/operations", "ticket", True)
        for part, looked in house.unseen.items()
    ]
    told = " ".join(trouble.what for trouble in found)
    found += [
        Trouble(f"{row.name}: {row.why[0]}", None, f"/tables/{row.name}", "ticket")
        for row in rows if row.state not in ("ok", "unknown", "waits") and row.why and row.name not in told
    ]  # fmt: skip
    return sorted(found, key=lambda t: (t.severity != "page", not t.unseen, t.since or datetime.now(UTC)))


def stages(house: House, rows: list[TableRow]) -> list[Stage]:
    """Return the way of a change, from the source to what is made of it."""
    capture, progress = house.capture, house.progress
    if capture is None:
        source = Stage("Source", "not seen yet", None, "unknown")
        connector = Stage("Debezium", "not seen yet", None, "unknown")
    else:
        held = capture.wal_held_bytes or 0
        source = Stage("Source", f"{len(capture.tables)} tables, {held / 2**20:,.0f} MiB of log kept", None, "ok")
        state = "ok" if capture.healthy else "bad"
        connector = Stage("Debezium", capture.error or capture.connector.lower(), None, state, "/operations")
    seen = "bad" if "kafka" in house.unseen else "ok"
    behind = sum(progress.lags.values())
    kafka = Stage("Kafka", f"{behind:,} offsets not in the lake", progress.into, seen)
    mirrored = [row for row in rows if row.kind == "mirror"]
    streams = [row for row in rows if row.kind == "events"]
    derived = [row for row in rows if row.kind == "derived"]
    found = [source, connector, kafka, _tables("Mirror", mirrored, progress.shown, "/tables?kind=mirror")]
    if streams:
        found.append(_tables("Streams", streams, None, "/tables?kind=events"))
    if derived:
        found.append(_tables("Derived", derived, None, "/tables?kind=derived"))
    return found


def _tables(name: str, rows: list[TableRow], rate: float | None, link: str) -> Stage:
    wrong = [row for row in rows if row.state in ("held", "differs", "late")]
    ages = [row.fresh for row in rows if row.fresh is not None]
    says = f"{len(rows)} tables, at most {max(ages):,.0f} s old" if ages else f"{len(rows)} tables"
    return Stage(name, says, rate, "bad" if wrong else "ok" if rows else "unknown", link)
