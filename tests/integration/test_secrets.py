"""What other users of the machine can see of a stack that is at work."""

from contextlib import suppress
from ipaddress import IPv6Address, ip_address

import psutil
import pytest

from tests.integration.stack import Stack

pytestmark = pytest.mark.process


def _commands(stack: Stack) -> dict[psutil.Process, str]:
    """The command line of each process of the stack."""
    found = {}
    for service in (psutil.Process(said["pid"]) for said in stack.report()["services"] if said["pid"]):
        for process in (service, *service.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                found[process] = " ".join(process.cmdline())
    return found


def test_no_command_line_has_a_secret(stack: Stack) -> None:
    shown = "\n".join(_commands(stack).values())

    assert "org.apache.spark.deploy.SparkSubmit" in shown
    assert not [secret for secret in stack.secrets if secret in shown]


def test_nothing_listens_beyond_loopback(stack: Stack) -> None:
    addresses = set()
    for process in _commands(stack):
        with suppress(psutil.NoSuchProcess):
            sockets = process.net_connections("inet")
            addresses |= {socket.laddr.ip for socket in sockets if socket.status == psutil.CONN_LISTEN}
    assert addresses
    assert not [address for address in addresses if not _loopback(address)]


def _loopback(address: str) -> bool:
    parsed = ip_address(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return (mapped or parsed).is_loopback
