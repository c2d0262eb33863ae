"""A lineage store in a real PostgreSQL, and its endpoint on a port of its own."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest
import structlog
import uvicorn
from prometheus_client import CollectorRegistry
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from lineage.store import Store
from services.lineage.api import create_app
from services.lineage.counters import ChecksFound, Counters
from tests.integration.postgres import Server

KEY = "a-key-for-tests"


@dataclass(frozen=True)
class Endpoint:
    url: str
    store: Store
    counters: Counters


@pytest.fixture
def store(server: Server) -> Iterator[Store]:
    with Store.open(server.dsn(server.new_database("lineage"))) as opened:
        opened.prepare()
        yield opened


@pytest.fixture
def endpoint(store: Store) -> Iterator[Endpoint]:
    registry = CollectorRegistry()
    counters = Counters(registry)
    registry.register(ChecksFound(store))
    app = create_app(store, KEY, counters, registry, structlog.stdlib.get_logger())
    running = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        yield Endpoint(_url(running), store, counters)
    finally:
        running.should_exit = True
        thread.join()


@retry(retry=retry_if_exception_type((IndexError, AttributeError, httpx.HTTPError)), stop=stop_after_delay(30),
       wait=wait_fixed(0.05))  # fmt: skip
def _url(running: uvicorn.Server) -> str:
    port = running.servers[0].sockets[0].getsockname()[1]
    httpx.get(f"http://127.0.0.1:{port}/health", timeout=60).raise_for_status()
    return f"http://127.0.0.1:{port}"
