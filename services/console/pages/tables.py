"""All tables, and each by itself."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import httpx
from fastapi import APIRouter, HTTPException, Query, Request, Response
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from pipelines.lake.properties import COLUMN_ORIGINS, DERIVED_FROM
from services.checker import record as checks
from services.console.accounts import QUERIES, Viewer
from services.console.context import Console
from services.console.query import Answer, run
from services.console.rows import STATES, TableRow, table_rows
from services.operations.contracts.summary import protections
from services.operations.layout.advice import advise
from services.operations.layout.current import layout_of
from services.operations.layout.observation import observe
from services.operations.layout.words import as_spec, seen
from services.stack.lake import lineage as ancestry
from services.stack.lake import open_catalog

PAGE = 100
Sort = Literal["state", "name", "fresh", "lag", "rows", "bytes", "files"]
SORTS: dict[str, Any] = {
    "state": lambda row: (STATES.index(row.state), row.name), "name": lambda row: row.name,
    "fresh": lambda row: -(row.fresh if row.fresh is not None else -1), "lag": lambda row: -row.lag,
    "rows": lambda row: -row.facts.rows, "bytes": lambda row: -row.facts.bytes,
    "files": lambda row: -(row.facts.data_files + row.facts.delete_files),
}  # fmt: skip
Charted = Literal["freshness", "visible", "records"]
CHARTS = {
    "freshness": "lakehouse_table_freshness_seconds{{table='{table}'}}",
    "visible": "lakehouse_table_visible_lag_seconds{{table='{table}'}}",
    "records": "sum(rate(lakehouse_table_records_total{{table='{table}'}}[1m]))",
}


def router(console: Console) -> APIRouter:
    """Return the pages' routes."""
    routes = APIRouter()

    @routes.get("/tables")
    def every(
        request: Request, who: Viewer, q: str = "", kind: str = "", sort: Sort = "state",
        page: Annotated[int, Query(ge=1)] = 1,
    ) -> Response:  # fmt: skip
        rows = [row for row in table_rows(console.house) if q.lower() in row.name and kind in ("", row.kind)]
        rows.sort(key=SORTS[sort])
        shown = rows[(page - 1) * PAGE : page * PAGE]
        part = request.headers.get("hx-target") == "rows"
        return console.page(
            request, who, "tables_part.html" if part else "tables.html", rows=shown, total=len(rows), q=q, kind=kind,
            sort=sort, sorts=list(SORTS), number=page, last=max(1, -(-len(rows) // PAGE)),
        )  # fmt: skip

    @routes.get("/streams")
    def streams(request: Request, who: Viewer) -> Response:
        rows = [row for row in table_rows(console.house) if row.kind != "mirror"]
        specs = {**console.specs.streams, **console.specs.derived}
        missing = sorted(specs.keys() - {row.name for row in rows})
        return console.page(request, who, "streams.html", rows=rows, specs=specs, missing=missing)

    @routes.get("/tables/{name:path}/metadata")
    def metadata(request: Request, who: Viewer, name: str) -> Response:
        table = _load(console, name)
        return console.page(
            request, who, "table_metadata.html", table=name, history=_history(table), schemas=_schemas(table),
            layout=layout_of(table), protected=protections(table), properties=_shown(table),
        )  # fmt: skip

    @routes.get("/tables/{name:path}/checks")
    def checked(request: Request, who: Viewer, name: str) -> Response:
        known = console.house.checks.get(name)
        found = checks.with_results(open_catalog(console.settings), [known]) if known is not None else []
        return console.page(request, who, "table_checks.html", run=found[0] if found else None)

    @routes.get("/tables/{name:path}/advice")
    def advice(request: Request, who: Viewer, name: str, where: str = "") -> Response:
        console.accounts.check_rate(QUERIES, who.role)
        observed = observe(_load(console, name), [where] if where else [])
        found = advise(observed)
        return console.page(
            request, who, "table_advice.html", seen=seen(observed), advice=found, spec=as_spec(found)
        )  # fmt: skip

    @routes.get("/tables/{name:path}/sample")
    def sample(request: Request, who: Viewer, name: str, snapshot: int | None = None) -> Response:
        console.accounts.check_rate(QUERIES, who.role)
        _row(console, name)
        at = f" AT (VERSION => {snapshot:d})" if snapshot is not None else ""
        namespace, _, short = name.partition(".")
        answer: Answer = run(console.settings, who.reads_as, f'SELECT * FROM lake."{namespace}"."{short}"{at}', 20)
        return console.page(request, who, "answer.html", answer=answer, snapshot=snapshot)

    @routes.get("/tables/{name:path}/chart")
    def chart(
        who: Viewer, name: str, of: Literal["freshness", "visible", "records"], hours: float = 1
    ) -> list[list[float]]:
        del who
        _row(console, name)
        return _range(console, CHARTS[of].format(table=name), min(hours, 360))

    @routes.get("/tables/{name:path}")
    def one(request: Request, who: Viewer, name: str) -> Response:
        row = _row(console, name)
        datasets = [each for of, each in console.house.datasets if of == name]
        run_of = console.house.checks.get(name)
        state = console.house.verification.get(row.facts.source_table or "")
        letters = (
            [g for g in console.house.letters.counts if g["topic"] == row.facts.topic] if console.house.letters else []
        )
        return console.page(
            request, who, "table.html", row=row, datasets=datasets, check=run_of, verification=state, letters=letters,
            visible=console.house.visible_lag.get(name), spec=_spec(console, row),
            alerts=[a for a in console.house.alerts if a["labels"].get("table") == name],
        )  # fmt: skip

    return routes


def _row(console: Console, name: str) -> TableRow:
    found = [row for row in table_rows(console.house) if row.name == name]
    if not found:
        raise HTTPException(404, f"no table of the lake is called {name}, as far as was looked")
    return found[0]


def _spec(console: Console, row: TableRow) -> Any:
    return console.specs.streams.get(row.name) or console.specs.derived.get(row.name)


def _load(console: Console, name: str) -> Table:
    _row(console, name)
    namespace, _, short = name.partition(".")
    try:
        return open_catalog(console.settings).load_table((namespace, short))
    except NoSuchTableError:
        raise HTTPException(404, f"the lake has no {name} any more") from None


def _history(table: Table, limit: int = 20) -> list[dict[str, Any]]:
    found = []
    for snapshot, _ in zip(ancestry(table), range(limit), strict=False):
        said = snapshot.summary.additional_properties if snapshot.summary else {}
        found.append({
            "id": snapshot.snapshot_id, "at": datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC),
            "operation": snapshot.summary.operation.value if snapshot.summary else "", "summary": said,
            "added": int(said.get("added-records", 0)), "files": int(said.get("added-data-files", 0)),
            "of": said.get(DERIVED_FROM) or said.get("lakehouse.offsets") or "", "schema": snapshot.schema_id,
        })  # fmt: skip
    return found


def _schemas(table: Table) -> list[dict[str, Any]]:
    """Return the table's schemas, newest first, each with what it changed, and when it was first used."""
    used: dict[int, int] = {}
    for snapshot in table.snapshots():
        if snapshot.schema_id is not None:
            used[snapshot.schema_id] = min(used.get(snapshot.schema_id, snapshot.timestamp_ms), snapshot.timestamp_ms)
    found: list[dict[str, Any]] = []
    before: dict[int, tuple[str, str]] = {}
    for number, schema in sorted(table.schemas().items()):
        now = {field.field_id: (field.name, str(field.field_type)) for field in schema.fields}
        changes = [f"+ {n} {t}" for i, (n, t) in now.items() if i not in before] if before else []
        changes += [f"- {n}" for i, (n, _) in before.items() if i not in now]
        changes += [f"{before[i][0]} {before[i][1]} → {n} {t}" for i, (n, t) in now.items()
                    if i in before and before[i] != (n, t)]  # fmt: skip
        at = used.get(number)
        found.append({
            "id": number, "columns": len(now), "changes": changes, "current": number == table.schema().schema_id,
            "at": None if at is None else datetime.fromtimestamp(at / 1000, UTC),
        })  # fmt: skip
        before = now
    return found[::-1]


def _shown(table: Table) -> dict[str, str]:
    """Return the table's own properties, but for long ones that other sections show."""
    return {k: v for k, v in sorted(table.properties.items()) if k.startswith("lakehouse.") and k != COLUMN_ORIGINS}


def _range(console: Console, query: str, hours: float) -> list[list[float]]:
    now = datetime.now(UTC).timestamp()
    step = max(10, round(hours * 3600 / 300))
    try:
        with httpx.Client(base_url=console.settings.prometheus_url, timeout=5, trust_env=False) as client:
            asked: dict[str, str | float] = {"query": query, "start": now - hours * 3600, "end": now, "step": step}
            answer = client.get("/api/v1/query_range", params=asked).raise_for_status().json()
    except httpx.HTTPError:
        return [[], []]
    values = answer["data"]["result"][0]["values"] if answer["data"]["result"] else []
    return [[float(at) for at, _ in values], [float(value) for _, value in values]]
