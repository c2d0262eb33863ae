"""Keep HTTP proxies of the environment out of the stack's own ways.

A company's machines have `http_proxy` set, and HTTP clients send there what is meant for the catalog beside them.
"""

import os
from collections.abc import Iterable
from urllib.parse import urlsplit

LOOPBACK = ("localhost", "127.0.0.1", "::1")
NAMES = ("no_proxy", "NO_PROXY")


def bypass_proxies(endpoints: Iterable[str]) -> None:
    """Have this process, and those that it starts, reach loopback and the hosts of these endpoints without a proxy.

    ``endpoints``: URLs, or hosts with a port. What `no_proxy` names already stays.
    """
    known = [host for name in NAMES for host in os.environ.get(name, "").split(",") if host.strip()]
    hosts = [urlsplit(at if "//" in at else f"//{at}").hostname for at in endpoints]
    every = dict.fromkeys([*(host.strip() for host in known), *LOOPBACK, *(host for host in hosts if host)])
    for name in NAMES:
        os.environ[name] = ",".join(every)
