import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from services.capture.large_rows import largest_record

ROOT = Path(__file__).parents[3]
ROOMS = sorted({path.parent.name for path in (ROOT / "infra").glob("*/health")})


def bash(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/up" else 503)
        self.end_headers()
        self.wfile.write(b'{"status": "UP"}')

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("check", "code", "says"),
    [
        pytest.param('"$PORT" /up', 0, "", id="answers"),
        pytest.param('"$PORT" /up "UP"', 0, "", id="answers with the text"),
        pytest.param('"$PORT" /up "DOWN"', 1, "without 'DOWN'", id="answers without the text"),
        pytest.param('"$PORT" /down', 1, "503", id="answers with an error"),
    ],
)
def test_http_health_is_what_the_server_says(port: int, check: str, code: int, says: str) -> None:
    result = bash(f"source infra/health.sh; healthy_http {check}", PORT=str(port))
    assert (result.returncode, says in result.stderr) == (code, True)


@pytest.mark.parametrize("check", ['healthy_http "$PORT" /', "healthy_kafka"])
def test_a_port_without_a_server_is_unhealthy_and_named(check: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = str(unused.getsockname()[1])
        result = bash(f"source infra/health.sh; {check}", PORT=port)
    assert result.returncode == 1
    assert result.stderr.strip() == f"nothing listens on port {port}"


def test_a_server_that_is_not_kafka_is_not_taken_for_it(port: int) -> None:
    assert bash("source infra/health.sh; healthy_kafka", PORT=str(port)).returncode == 1


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        pytest.param([], "has not started", id="no pid file"),
        pytest.param(["1", "d", "0", "5442", "", "", "0 0", "starting"], "is starting", id="recovering"),
        pytest.param(["999999999", "d", "0", "5442", "", "", "0 0", "ready   "], "has died", id="killed"),
    ],
)
def test_postgres_is_unhealthy_until_its_postmaster_is_ready(tmp_path: Path, lines: list[str], says: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "postmaster.pid").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    result = bash("source infra/health.sh; healthy_postgres", STATE_DIR=str(tmp_path), PORT="5442")
    assert result.returncode == 1
    assert says in result.stderr


def test_a_template_is_rendered_with_the_values_as_they_are(tmp_path: Path) -> None:
    template = tmp_path / "t"
    template.write_text("a=${ONE}&${TWO}\nb=${ONE}\n", encoding="utf-8")
    result = bash('source infra/java.sh; render "$TEMPLATE"', TEMPLATE=str(template), ONE="x&y", TWO="/\\", HEAP="1m")
    assert result.stdout == "a=x&y&/\\\nb=x&y\n"


def test_a_template_with_an_unset_variable_is_an_error(tmp_path: Path) -> None:
    template = tmp_path / "t"
    template.write_text("a=${MISSING}\n", encoding="utf-8")
    assert bash('source infra/java.sh; render "$TEMPLATE"', TEMPLATE=str(template), HEAP="1m").returncode != 0


def test_what_could_hold_secrets_is_left_out_of_lineage() -> None:
    rendered = bash(
        "source infra/java.sh; render infra/connect/openlineage.yml",
        HEAP="1m",
        LINEAGE_URL="http://lineage:5000",
        LINEAGE_API_KEY="00e0",
    )
    config = yaml.safe_load(rendered.stdout)
    assert config["facets"] == {"debezium_config": {"disabled": True}, "errorMessage": {"disabled": True}}
    transport = config["transport"]
    assert (transport["type"], transport["url"], transport["endpoint"]) == (
        "http", "http://lineage:5000", "/api/v1/lineage",
    )  # fmt: skip
    assert transport["auth"] == {"type": "api_key", "apiKey": "00e0"}
    # Without it, a receiver that hangs would hold up a task that stops by five seconds for each event.
    assert transport["timeoutInMillis"] <= 250


@pytest.mark.parametrize(("row", "record", "socket"), [(1, 3, 100), (64, 129, 131), (500, 1001, 1003)])
def test_a_row_is_let_through_with_the_one_before_it(row: int, record: int, socket: int) -> None:
    script = 'source infra/largest_row.sh; echo "$record_bytes $request_bytes $socket_bytes"'
    mib = 1024**2
    assert largest_record(row) == record * mib
    assert bash(script, LARGEST_ROW_MIB=str(row)).stdout.split() == [
        str(size * mib) for size in (record, record + 1, socket)
    ]


@pytest.mark.parametrize("given", ["", "0", "501", "64m", "1e3", "99999"])
def test_a_largest_row_that_is_no_size_is_refused_by_name(given: str) -> None:
    refused = bash("source infra/largest_row.sh; echo on", LARGEST_ROW_MIB=given)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"LARGEST_ROW_MIB={given} (.env)" in refused.stderr


@pytest.mark.parametrize("room", ROOMS)
def test_scripts_are_strict_and_executable(room: str) -> None:
    for name in ("start", "health"):
        script = ROOT / "infra" / room / name
        text = script.read_text(encoding="utf-8")
        assert os.access(script, os.X_OK), script
        assert re.match(r"#!/usr/bin/env bash\n", text), script
        assert "set -euo pipefail" in text, script


@pytest.mark.parametrize("runner", ["process", "compose"])
@pytest.mark.parametrize("how", ["make -n setup RUNNER={}", "RUNNER={} make -n setup"])
def test_what_is_prepared_is_of_the_runner_asked_for(runner: str, how: str) -> None:
    assert bash(how.format(runner)).stdout.splitlines()[0].endswith(f"preflight --runner {runner}")


@pytest.mark.parametrize(
    ("given", "added"), [("", []), ("-Da=b  -XX:TieredStopAtLevel=4", ["-Da=b", "-XX:TieredStopAtLevel=4"])]
)
def test_a_server_s_own_java_options_come_last(given: str, added: list[str]) -> None:
    script = "source infra/java.sh; printf '%s\\n' \"${java_options[@]}\""
    plain = bash(script, HEAP="1m").stdout.splitlines()
    assert plain[0] == "-Xmx1m"
    assert bash(script, HEAP="1m", JAVA_OPTIONS=given).stdout.splitlines() == [*plain, *added]
