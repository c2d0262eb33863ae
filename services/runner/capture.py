"""What capture has to say for `make status`. Capture has its own room; without it there is nothing to show."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
from pydantic import BaseModel, ConfigDict
from rich.markup import escape
from rich.table import Table

MODULE = "services.capture.status"


class CaptureReport(BaseModel):
    """Capture's own report as plain data, or why there is none."""

    model_config = ConfigDict(frozen=True)

    report: dict[str, Any] | None = None
    problem: str = ""


def look() -> CaptureReport | None:
    """Return what capture reports; None if this checkout has no capture. What it can't find out is its `problem`."""
    try:
        module = importlib.import_module(MODULE)
    except ModuleNotFoundError as error:
        if error.name and MODULE.startswith(error.name):
            return None
        raise
    try:
        return CaptureReport(report=module.report().model_dump(mode="json"))
    except (httpx.HTTPError, psycopg.Error, OSError, ValueError, RuntimeError) as error:
        return CaptureReport(problem=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")


def table(capture: CaptureReport) -> Table:
    """Return the report as rows, in capture's own words."""
    shown = Table.grid(padding=(0, 2))
    shown.add_row("[bold]capture[/]", f"[yellow]{escape(capture.problem)}[/]" if capture.problem else "")
    for key, text in _rows(capture.report or {}):
        shown.add_row(f"  {escape(key)}", escape(text))
    return shown


def _rows(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in report.items():
        label = key.replace("_", " ")
        if isinstance(value, dict):
            yield from ((f"{label} {name}", _text(item)) for name, item in value.items())
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield from (
                (label, ", ".join(f"{_text(part)}" for part in item.values() if part not in (None, "")))
                for item in value
            )
        else:
            yield label, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "none"
    return "-" if value is None else str(value)
