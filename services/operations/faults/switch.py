"""Every fault under one name: the mirror's failpoints, and faults of the network."""

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from pipelines.failpoints import FAILPOINTS, arm, disarm, fired
from services.operations.faults.network import KINDS, PROXIES, Network, NoProxies
from services.stack.errors import LakehouseError

NO_PROXIES = "make proxies"
NETWORK = {f"{proxy}-{kind}": (proxy, kind) for proxy in PROXIES for kind in KINDS}


class UnknownFault(LakehouseError):
    """No fault is called so."""


@dataclass(frozen=True)
class Fault:
    """A fault as a person sees it. ``on``: it is on, armed, or was reached and may hold the mirror still."""

    name: str
    says: str
    state: str

    @property
    def on(self) -> bool:
        """Whether somebody has switched it on, and nobody off."""
        return self.state not in ("off", NO_PROXIES)


class Faults:
    """The faults of one stack. ``failpoints``: where its mirror looks for them."""

    def __init__(self, failpoints: Path, network: Network) -> None:
        self._failpoints, self.network = failpoints, network

    def on(self, name: str, action: str = "kill") -> None:
        """Switch a fault on. ``action``: of a failpoint. Raises UnknownFault, UnknownFailpoint, NoProxies."""
        if name in NETWORK:
            self.network.on(*NETWORK[name])
        else:
            arm(self._failpoints, _failpoint(name), action)

    def off(self, name: str) -> None:
        """Switch a fault off, whether or not it is on."""
        if name in NETWORK:
            self.network.off(NETWORK[name][0])
        else:
            disarm(self._failpoints, _failpoint(name))

    def every(self) -> list[Fault]:
        """Return all faults, and which are on."""
        found = [Fault(name, f"mirror: {says}", self._armed(name)) for name, says in FAILPOINTS.items()]
        try:
            state = self.network.state()
        except NoProxies:
            state = None
        for name, (proxy, kind) in NETWORK.items():
            on = NO_PROXIES if state is None else "on" if state[proxy] == kind else "off"
            found.append(Fault(name, f"{PROXIES[proxy]}: {KINDS[kind].says}", on))
        return found

    def _armed(self, name: str) -> str:
        return "armed" if (self._failpoints / name).exists() else "reached" if fired(self._failpoints, name) else "off"


def _failpoint(name: str) -> str:
    if name not in FAILPOINTS:
        near = get_close_matches(name, [*FAILPOINTS, *NETWORK], n=1, cutoff=0.4)
        guess = f" Did you mean {near[0]}?" if near else ""
        raise UnknownFault(f"there is no fault {name!r}.{guess} `make fault` lists them.")
    return name
