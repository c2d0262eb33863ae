"""What the benchmark counts on the way to the object store, by the proxy that it uses."""

import subprocess
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest

from tests.bench.meter import Meter, Moved
from tests.integration.stack import CHECKOUT, free_ports, wait_until

SIZE = 3_000_000


class Handler(SimpleHTTPRequestHandler):
    """Gives files, and takes what is put there."""

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "file").write_bytes(bytes(SIZE))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture
def meter(tmp_path: Path, store: int) -> Iterator[Meter]:
    meter, config = Meter(*free_ports(2)), tmp_path / "meter.json"
    config.write_text(meter.configured(store))
    proxy = subprocess.Popen(meter.command(str(config)), cwd=CHECKOUT, stdout=subprocess.DEVNULL)
    wait_until(lambda: _answers(meter.control))
    yield meter
    proxy.terminate()
    proxy.wait(30)


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/version").is_success
    except httpx.TransportError:
        return False


def test_bytes_are_counted_once_connections_have_ended(meter: Meter) -> None:
    assert meter.moved() == Moved(0, 0)
    with httpx.Client() as client:
        for _ in range(3):
            assert len(client.get(f"http://127.0.0.1:{meter.port}/file").content) == SIZE
    first = meter.moved()
    # HTTP's own with them.
    assert 3 * SIZE < first.read < 3 * SIZE + 3_000
    assert 0 < first.sent < 3_000
    httpx.put(f"http://127.0.0.1:{meter.port}/file", content=bytes(SIZE))
    then = meter.moved().since(first)
    assert SIZE < then.sent < SIZE + 1_000
    assert 0 < then.read < 1_000
