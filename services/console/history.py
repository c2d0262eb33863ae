"""The alerts of the past, as Alertmanager has told them: the newest, in a file."""

import json
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST = 500


class Alert(BaseModel):
    """An alert, of a webhook's body."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    status: Literal["firing", "resolved"]
    labels: dict[str, str]
    annotations: dict[str, str] = {}
    starts_at: str = Field(alias="startsAt")
    ends_at: str = Field(default="", alias="endsAt")
    fingerprint: str = ""


class Told(BaseModel):
    """What Alertmanager posts."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    alerts: tuple[Alert, ...]


class AlertHistory:
    """The newest alerts, newest first."""

    def __init__(self, file: Path) -> None:
        self._file, self._lock = file, Lock()
        self._known: list[dict[str, Any]] = []
        try:
            self._known = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()][:MOST]
        except (OSError, ValueError):
            self._known = []

    def add(self, told: Told) -> None:
        """Keep what was told; of an alert the newest word counts."""
        with self._lock:
            fresh = [alert.model_dump(by_alias=True) for alert in told.alerts]
            newest = {(each["fingerprint"], each["startsAt"]): each for each in (*self._known, *fresh)}
            self._known = sorted(newest.values(), key=lambda each: str(each["startsAt"]), reverse=True)[:MOST]
            unfinished = self._file.with_suffix(".part")
            unfinished.write_text("".join(f"{json.dumps(each)}\n" for each in self._known), encoding="utf-8")
            unfinished.replace(self._file)

    def newest(self) -> list[dict[str, Any]]:
        """Return them."""
        return list(self._known)
