"""Ask the lake in SQL, with the keys of the role that one reads as."""

import csv
import io
import json
from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Request, Response

from services.console.accounts import QUERIES, Checked, Viewer
from services.console.chart import chart
from services.console.context import Console
from services.console.query import run

LONGEST = 20_000
Text = Annotated[str, Form(max_length=LONGEST)]


def router(console: Console) -> APIRouter:
    """Return the page's routes."""
    routes = APIRouter()

    @routes.get("/sql")
    def page(request: Request, who: Viewer) -> Response:
        tables = sorted(console.house.tables)
        shown = [each.table.removeprefix("lake.") for _, each in console.house.datasets if each.role == who.reads_as]
        first = next(iter(shown if who.reads_as == "restricted" else tables), None)
        return console.page(request, who, "sql.html", tables=tables, shown=sorted(shown), first=first)

    @routes.post("/sql")
    def ask(request: Request, who: Checked, sql: Text) -> Response:
        console.accounts.check_rate(QUERIES, who.role)
        answer = run(console.settings, who.reads_as, sql)
        drawn = chart(answer)
        return console.page(request, who, "answer.html", sql=sql, answer=answer,
                            series=None if drawn is None else json.dumps(drawn.to_json()))  # fmt: skip

    @routes.post("/sql.csv")
    def as_csv(who: Checked, sql: Text) -> Response:
        console.accounts.check_rate(QUERIES, who.role)
        answer = run(console.settings, who.reads_as, sql)
        if answer.error:
            raise HTTPException(422, answer.error)
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(answer.columns)
        writer.writerows([_cell(value) for value in row] for row in answer.rows)
        return Response(text.getvalue(), media_type="text/csv",
                        headers={"Content-Disposition": 'attachment; filename="answer.csv"'})  # fmt: skip

    return routes


def _cell(value: object) -> object:
    """Return a value that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" else value
