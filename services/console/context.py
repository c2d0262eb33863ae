"""What all pages have in common."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.templating import Jinja2Templates
from structlog.stdlib import BoundLogger

from pipelines.specs.load import Specs
from services.console.accounts import Accounts, Person
from services.console.data_docs import DataDocs
from services.console.history import AlertHistory
from services.console.house import House
from services.console.settings import ConsoleSettings
from services.console.words import FILTERS

TEMPLATES = Path(__file__).with_name("templates")
PAGES = (
    ("/", "Overview"), ("/tables", "Tables"), ("/streams", "Streams"), ("/letters", "Dead letters"),
    ("/lineage", "Lineage"), ("/quality", "Quality"), ("/operations", "Operations"), ("/alerts", "Alerts"),
    ("/sql", "SQL"),
)  # fmt: skip


@dataclass(frozen=True)
class Console:
    """The console's parts, for its pages."""

    settings: ConsoleSettings
    house: House
    accounts: Accounts
    specs: Specs
    history: AlertHistory
    log: BoundLogger
    templates: Jinja2Templates
    data_docs: DataDocs

    @classmethod
    def of(cls, settings: ConsoleSettings, house: House, specs: Specs, log: BoundLogger) -> "Console":
        """Return the console on a house."""
        templates = Jinja2Templates(TEMPLATES)
        templates.env.trim_blocks = templates.env.lstrip_blocks = True
        templates.env.filters.update(FILTERS)
        history = AlertHistory(settings.state_dir / "alerts.jsonl")
        return cls(settings, house, Accounts(settings.passwords), specs, history, log, templates, DataDocs())

    def page(self, request: Request, who: Person, name: str, **values: Any) -> Response:
        """Return a page, or a part of one, for somebody."""
        common = {
            "who": who, "pages": PAGES, "now": datetime.now(UTC), "unseen": self.house.unseen,
            "firing": len([a for a in self.house.alerts if a["status"]["state"] == "active"]),
        }  # fmt: skip
        return self.templates.TemplateResponse(request, name, {**common, **values})

    def reason(self, because: str) -> str:
        """Return why somebody does something. Raises HTTPException where they don't say."""
        if len(because.strip()) < 3:
            raise HTTPException(422, "say why: the audit trail keeps it")
        return because.strip()[:500]
