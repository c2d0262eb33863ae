"""Faults of the network between the services: Toxiproxy's toxics, one at a time on a proxy (`make proxies`)."""

from dataclasses import dataclass
from typing import Any

import httpx

from services.stack.errors import LakehouseError

SECONDS = 10.0
TOXIC = "fault"


class NoProxies(LakehouseError):
    """The stack runs without proxies between its services."""


@dataclass(frozen=True)
class Kind:
    """A way in which a connection fails. ``toxic`` None: the proxy doesn't listen."""

    says: str
    toxic: str | None = None
    attributes: tuple[tuple[str, int], ...] = ()


PROXIES = {
    "catalog": "between the mirror and the catalog",
    "s3": "between the mirror and the object store",
    "registry": "between the mirror, or Connect, and the schema registry",
    "kafka": "between everything and Kafka",
    "source": "between capture and the source's database",
}
KINDS = {
    "slow": Kind("every answer takes about a second longer", "latency", (("latency", 1000), ("jitter", 500))),
    "reset": Kind("connections are reset", "reset_peer", (("timeout", 0),)),
    "lost": Kind("requests arrive, and answers are lost", "limit_data", (("bytes", 0),)),
    "silent": Kind("answers are held back, and connections stay open", "timeout", (("timeout", 0),)),
    "down": Kind("nobody listens"),
}


class Network:
    """The proxies of a stack, by the URL of Toxiproxy. Raises NoProxies when it doesn't answer."""

    def __init__(self, url: str) -> None:
        self._url = url

    def on(self, proxy: str, kind: str) -> None:
        """Let the connections through a proxy fail, in this way only."""
        self.off(proxy)
        chosen = KINDS[kind]
        if chosen.toxic is None:
            self._ask("POST", f"/proxies/{proxy}", {"enabled": False})
            return
        toxic = {"name": TOXIC, "type": chosen.toxic, "stream": "downstream", "attributes": dict(chosen.attributes)}
        self._ask("POST", f"/proxies/{proxy}/toxics", toxic)

    def off(self, proxy: str) -> None:
        """Let a proxy pass everything."""
        if self._ask("GET", f"/proxies/{proxy}")["toxics"]:
            self._ask("DELETE", f"/proxies/{proxy}/toxics/{TOXIC}")
        self._ask("POST", f"/proxies/{proxy}", {"enabled": True})

    def state(self) -> dict[str, str | None]:
        """Proxy to the kind of fault that is on."""
        found = self._ask("GET", "/proxies")
        return {name: _kind(found[name]) for name in PROXIES}

    def upstream(self, proxy: str) -> str:
        """Return where a proxy sends what it takes."""
        return str(self._ask("GET", f"/proxies/{proxy}")["upstream"])

    def redirect(self, proxy: str, upstream: str) -> None:
        """Send what a proxy takes to another address; its connections end."""
        self._ask("POST", f"/proxies/{proxy}", {"upstream": upstream})

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            answer = httpx.request(method, self._url + path, json=body, timeout=SECONDS)
            answer.raise_for_status()
        except httpx.HTTPError as error:
            raise NoProxies(
                f"no proxies answer at {self._url}: {error}. Start the stack with them: make proxies"
            ) from error
        return dict(answer.json()) if answer.content else {}


def _kind(proxy: dict[str, Any]) -> str | None:
    if not proxy["enabled"]:
        return "down"
    toxics = {toxic["type"] for toxic in proxy["toxics"]}
    return next((name for name, kind in KINDS.items() if kind.toxic in toxics), None)
