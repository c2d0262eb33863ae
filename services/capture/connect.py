"""Kafka Connect's REST interface, as far as one connector needs it."""

import json
from types import TracebackType
from typing import Any, Self

import httpx
from pydantic import BaseModel, ConfigDict

from services.capture.errors import NotReady, Refused


class TaskState(BaseModel):
    """A task or the connector itself: its state in Connect's words, and the first line of what made it fail."""

    model_config = ConfigDict(frozen=True)

    state: str
    error: str | None = None


class ConnectorState(BaseModel):
    """A connector and its tasks."""

    model_config = ConfigDict(frozen=True)

    connector: TaskState
    tasks: dict[int, TaskState]

    @property
    def failed(self) -> str | None:
        """The first error, if the connector or a task of it has failed."""
        states = (self.connector, *self.tasks.values())
        return next((s.error or "no reason given" for s in states if s.state == "FAILED"), None)

    @property
    def stopped(self) -> bool:
        """Whether the connector was stopped and its tasks have ended."""
        return self.connector.state == "STOPPED" and not self.tasks

    @property
    def running(self) -> bool:
        """Whether the connector and all of its tasks, at least one, run."""
        return bool(self.tasks) and all(s.state == "RUNNING" for s in (self.connector, *self.tasks.values()))


class Connect:
    """One Connect cluster. Every method raises NotReady when Connect doesn't answer or is busy rebalancing."""

    def __init__(self, url: str, timeout: float = 30, transport: httpx.BaseTransport | None = None) -> None:
        self._client = httpx.Client(base_url=url, timeout=timeout, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def config(self, name: str) -> dict[str, str] | None:
        """Return the connector's settings, or None if there is no such connector."""
        answer = self._ask("GET", f"/connectors/{name}/config")
        return None if answer is None else {key: value for key, value in answer.items() if key != "name"}

    def configure(self, name: str, config: dict[str, str]) -> None:
        """Create the connector or change its settings. Raises Refused when Connect finds fault with them."""
        self._ask("PUT", f"/connectors/{name}/config", json=config)

    def restart(self, name: str, only_failed: bool) -> None:
        """Restart the connector and its tasks, or what of them has failed."""
        chosen = {"includeTasks": "true", "onlyFailed": str(only_failed).lower()}
        self._ask("POST", f"/connectors/{name}/restart", params=chosen)

    def state(self, name: str) -> ConnectorState | None:
        """Return how the connector is, or None if there is no such connector."""
        answer = self._ask("GET", f"/connectors/{name}/status")
        if answer is None:
            return None
        tasks = {task["id"]: _state(task) for task in answer["tasks"]}
        return ConnectorState(connector=_state(answer["connector"]), tasks=tasks)

    def offset(self, name: str) -> dict[str, Any] | None:
        """Return the source position that the connector has stored, in its own words; None if it has none."""
        answer = self._ask("GET", f"/connectors/{name}/offsets") or {"offsets": []}
        return next((entry["offset"] for entry in answer["offsets"]), None)

    def reads_tables(self, name: str) -> bool:
        """Return whether the connector is reading tables again, beside the stream."""
        return "incremental_snapshot_collections" in (self.offset(name) or {})

    def tables_read(self, name: str) -> frozenset[str]:
        """Return the tables (``schema.table``) that the connector is reading again, or has still to."""
        left = json.loads((self.offset(name) or {}).get("incremental_snapshot_collections") or "[]")
        return frozenset(entry["incremental_snapshot_collections_id"] for entry in left)

    def forget_offset(self, name: str) -> None:
        """Have the stopped connector begin anew, when it is resumed: with a snapshot of all its tables."""
        self._ask("DELETE", f"/connectors/{name}/offsets")

    def stop(self, name: str) -> None:
        """End the connector's tasks, until it is resumed; also a restart of Connect doesn't begin them again."""
        self._ask("PUT", f"/connectors/{name}/stop")

    def resume(self, name: str) -> None:
        """Let the connector go on after a stop."""
        self._ask("PUT", f"/connectors/{name}/resume")

    def _ask(self, method: str, path: str, **options: Any) -> Any:
        see = "see `make logs s=connect`"
        try:
            answer = self._client.request(method, path, **options)
        except httpx.HTTPError as error:
            raise NotReady(
                f"Connect at {self._client.base_url} doesn't answer ({type(error).__name__}); {see}"
            ) from None
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        if answer.status_code == httpx.codes.CONFLICT or answer.is_server_error:
            raise NotReady(f"Connect isn't ready ({answer.status_code}: {_message(answer)}); {see}")
        if answer.is_error:
            raise Refused(f"Connect refuses {method} {path} ({answer.status_code}: {_message(answer)}); {see}")
        return answer.json() if answer.content else {}


def _state(answer: dict[str, Any]) -> TaskState:
    lines = [line.strip() for line in (answer.get("trace") or "").splitlines() if line.strip()]
    return TaskState(state=answer["state"], error=_first_error(lines))


def _first_error(lines: list[str]) -> str | None:
    """Return the line that says most: the last cause.

    Without it Connect says only that something was unrecoverable.
    """
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    if causes:
        return causes[-1]
    return lines[0] if lines else None


def _message(answer: httpx.Response) -> str:
    try:
        text = str(answer.json().get("message", ""))
    except (ValueError, AttributeError):
        text = answer.text
    return " ".join(text.split())[:500]
