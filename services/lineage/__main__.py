"""`python -m services.lineage`: the service."""

import logging
import sys
import threading
from datetime import UTC, datetime, timedelta

import psycopg
import uvicorn
from prometheus_client import CollectorRegistry, ProcessCollector
from psycopg_pool import PoolTimeout
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from lineage.store import Store
from pipelines.log import json_log
from services.lineage.api import create_app
from services.lineage.counters import ChecksFound, Counters
from services.lineage.follow.follower import Follower, client
from services.lineage.forward import Forwarder
from services.lineage.settings import LineageSettings
from services.stack.errors import LakehouseError
from services.stack.stopping import Stop

PRUNE_SECONDS = 3600.0


def main() -> int:
    """Take events and tell of the lake until SIGTERM; the exit code."""
    log = json_log()
    # The catalog's server deletes a table's old metadata, and PyIceberg then complains that it's gone.
    logging.getLogger("pyiceberg.catalog").setLevel(logging.ERROR)
    logging.getLogger("openlineage").setLevel(logging.ERROR)
    try:
        settings = LineageSettings.load()
    except LakehouseError as error:
        log.error("lineage can't start", error=str(error))
        return 1
    stop, registry = Stop(), CollectorRegistry()
    stop.on_signals()
    counters = Counters(registry)
    # How much memory it takes, as Prometheus' clients say it.
    ProcessCollector(registry=registry)
    with Store.open(settings.lineage_conninfo.get_secret_value()) as store:
        _prepared(store)
        key = settings.lineage_api_key.get_secret_value()
        registry.register(ChecksFound(store))
        app = create_app(store, key, counters, registry, log)
        server = uvicorn.Server(uvicorn.Config(
            app, host=settings.bind_address, port=settings.lineage_port, log_level="warning", access_log=False,
        ))  # fmt: skip
        sending = client(f"http://127.0.0.1:{settings.lineage_port}", key)
        parts = [threading.Thread(target=Follower(settings, store, sending, counters, log).run, args=(stop,)),
                 threading.Thread(target=_prune, args=(settings, store, stop))]  # fmt: skip
        if settings.openlineage_url:
            onward = settings.openlineage_api_key.get_secret_value()
            forwarder = Forwarder(store, settings.openlineage_url, onward, counters, log)
            parts.append(threading.Thread(target=forwarder.run, args=(stop,)))
        for part in parts:
            part.start()
        log.info("started", port=settings.lineage_port)
        # Returns once asked to stop, and hands the signal on.
        server.run()
        stop.event.set()
        for part in parts:
            part.join()
    log.info("stopped")
    return 0


def _prepared(store: Store) -> None:
    """Make the store's tables, once the database answers."""
    passing = retry_if_exception_type((psycopg.OperationalError, PoolTimeout))
    Retrying(retry=passing, stop=stop_after_delay(120), wait=wait_fixed(1), reraise=True)(store.prepare)


def _prune(settings: LineageSettings, store: Store, stop: Stop) -> None:
    while not stop.wait(PRUNE_SECONDS):
        store.prune(datetime.now(UTC) - timedelta(days=settings.lineage_days))


if __name__ == "__main__":
    sys.exit(main())
