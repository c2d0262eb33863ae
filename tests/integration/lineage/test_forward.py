"""Events sent on to another endpoint."""

from collections.abc import Iterator

import httpx
import pytest
import structlog
from prometheus_client import CollectorRegistry

from lineage.received import Received
from lineage.store import Store
from services.lineage.counters import Counters
from services.lineage.forward import Forwarder
from services.stack.stopping import Stop
from tests.integration.lineage.conftest import KEY, Endpoint
from tests.integration.lineage.told import derived, mirrored
from tests.integration.postgres import Server


@pytest.fixture
def here(server: Server) -> Iterator[Store]:
    """The store that is sent on from; ``endpoint`` has another."""
    with Store.open(server.dsn(server.new_database("here"))) as opened:
        opened.prepare()
        yield opened


def send(here: Store, url: str) -> None:
    forwarder = Forwarder(here, url, KEY, Counters(CollectorRegistry()), structlog.stdlib.get_logger())
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {KEY}"}, timeout=60) as client:
        forwarder.send(client, Stop())


def test_every_event_is_sent_on_once_and_in_order(here: Store, endpoint: Endpoint) -> None:
    sent = [mirrored(minute, f"{minute}") for minute in range(5)]
    for body in sent[:3]:
        here.take(Received(body))
    send(here, endpoint.url)
    for body in sent[3:]:
        here.take(Received(body))
    send(here, endpoint.url)
    send(here, endpoint.url)

    assert [row["body"] for row in endpoint.store.rows("SELECT body FROM event ORDER BY id")] == sent
    assert endpoint.counters.repeated.collect()[0].samples[0].value == 0


def test_what_cannot_be_sent_waits_and_what_is_refused_does_not_hold_up_the_rest(
    here: Store, endpoint: Endpoint
) -> None:
    here.take(Received(mirrored()))
    here.rows("INSERT INTO event (digest, at, body) VALUES ('x', now(), '{\"job\": {}}') RETURNING id")
    here.take(Received(derived()))

    with pytest.raises(httpx.ConnectError):
        send(here, "http://127.0.0.1:9")
    assert here.state("forward") == {}
    send(here, endpoint.url)

    assert [row["body"] for row in endpoint.store.rows("SELECT body FROM event ORDER BY id")] == [mirrored(), derived()]
