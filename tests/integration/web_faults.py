"""A reverse proxy that makes single HTTP requests fail: before they reach the server, or after it has done them."""

import http.client
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

SECONDS = 60.0
# What is about one connection, and is not passed on.
OF_THE_CONNECTION = {"connection", "keep-alive", "expect", "transfer-encoding", "proxy-connection"}


@dataclass
class Rule:
    """What becomes of the next ``times`` requests of this method whose path matches.

    ``done``: whether the server gets to do them. ``status``: the answer; None: none, the connection is cut. ``then``:
    called before the answer.
    """

    method: str
    path: str
    status: int | None = None
    done: bool = False
    times: int = 1
    then: Callable[[], None] = lambda: None
    fired: threading.Event = field(default_factory=threading.Event)


class WebFaults:
    """The rules of a proxy that runs; requests that none is for pass."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.url = f"http://{address[0]}:{address[1]}"
        self._rules: list[Rule] = []
        self._lock = threading.Lock()

    @contextmanager
    def rule(self, method: str, path: str, **what: Any) -> Iterator[Rule]:
        """A rule that holds for the block."""
        rule = Rule(method, path, **what)
        with self._lock:
            self._rules.append(rule)
        try:
            yield rule
        finally:
            with self._lock:
                self._rules.remove(rule)

    def matching(self, method: str, path: str) -> Rule | None:
        """The rule for a request; it counts as used."""
        with self._lock:
            for rule in self._rules:
                if rule.times and rule.method == method and re.search(rule.path, path):
                    rule.times -= 1
                    return rule
        return None


@contextmanager
def web_faults(upstream: str) -> Iterator[WebFaults]:
    """A proxy before ``upstream``, a URL without a path, on a port that is free."""
    to = urlsplit(upstream).netloc
    server = _Server(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    faults = WebFaults(("127.0.0.1", server.server_port))
    server.upstream, server.faults = to, faults  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield faults
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        faults: WebFaults = self.server.faults  # type: ignore[attr-defined]
        body = self._body()
        rule = faults.matching(self.command, self.path)
        if rule is None:
            self._answer(*self._upstream(body))
            return
        if rule.done:
            self._upstream(body)
        rule.then()
        if rule.status is None:
            self.close_connection = True
        else:
            self._answer(rule.status, {}, b"")
        rule.fired.set()

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815, the names that the base class looks for

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _upstream(self, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        connection = http.client.HTTPConnection(self.server.upstream, timeout=SECONDS)  # type: ignore[attr-defined]
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in OF_THE_CONNECTION | {"content-length"}:
                    connection.putheader(name, value)
            if body or "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in OF_THE_CONNECTION | {"content-length"}:
                self.send_header(name, value)
        # The answer to a HEAD tells the length of what isn't sent.
        length = headers.get("Content-Length", len(body)) if self.command == "HEAD" else len(body)
        if status not in (204, 304):
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""
