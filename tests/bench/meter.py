"""What a system reads from the object store, and sends there: a proxy before the store counts it."""

import json
from dataclasses import dataclass

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.stack import wait_until

TOXIPROXY = ".lakehouse/toolchain/bin/toxiproxy"
SECONDS = 30.0
RECEIVED = "toxiproxy_proxy_received_bytes_total"


@dataclass(frozen=True)
class Moved:
    """Bytes that have gone through, HTTP's own included. ``read``: from the store; ``sent``: to it."""

    read: int = 0
    sent: int = 0

    def since(self, before: "Moved") -> "Moved":
        """What has come after that."""
        return Moved(self.read - before.read, self.sent - before.sent)


@dataclass(frozen=True)
class Meter:
    """A Toxiproxy. ``control``: the port on which it is asked; ``port``: the one that it passes on to the store."""

    control: int
    port: int

    def configured(self, store: int) -> str:
        """What its configuration file says, for the port of a store."""
        return json.dumps([{"name": "s3", "listen": f"127.0.0.1:{self.port}", "upstream": f"127.0.0.1:{store}"}])

    def command(self, configuration: str) -> list[str]:
        """How it is started in a checkout, with the path of that file."""
        return [TOXIPROXY, "-host", "127.0.0.1", "-port", str(self.control), "-proxy-metrics", "-config", configuration]

    def moved(self) -> Moved:
        """All that has gone through since it was started. It counts a connection when that has ended, so this returns
        once all have: ask when whatever uses it has been stopped. Raises tenacity.RetryError if some stay open.
        """
        wait_until(lambda: not self._connections())
        answer = httpx.get(f"http://127.0.0.1:{self.control}/metrics", timeout=SECONDS)
        answer.raise_for_status()
        found = {
            sample.labels["direction"]: int(sample.value)
            for family in text_string_to_metric_families(answer.text)
            for sample in family.samples
            if sample.name == RECEIVED
        }
        # Each direction is told where it goes to: "downstream" is the one who asked.
        return Moved(found.get("downstream", 0), found.get("upstream", 0))

    def _connections(self) -> int:
        ended = (psutil.CONN_LISTEN, psutil.CONN_TIME_WAIT)
        connections = psutil.net_connections("tcp")
        return sum(it.laddr.port == self.port and it.status not in ended for it in connections if it.laddr)
