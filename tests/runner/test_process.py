"""What only the process runner does."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from services.runner.__main__ import app
from services.runner.checkout import Checkout
from services.runner.choose import remember
from services.runner.errors import ComposeFileError, RunnerError, ServiceFailedError
from tests.runner.conftest import Tiny, server

pytestmark = pytest.mark.process
SECRET = "s3cr3t 'quoted\" %(here)s ${X}".replace("${X}", "")


def _printing_environment(**environment: str) -> dict[str, object]:
    it = server("a", environment=environment)
    it["command"] = ["bash", "-c", 'env -0 >environment; exec bash -c "$$0"', it["command"][2]]
    return it


def _environment(tiny: Tiny) -> dict[str, str]:
    text = (tiny.checkout.root / "environment").read_text(encoding="utf-8")
    return dict(item.split("=", 1) for item in text.split("\0") if item)


def test_services_see_their_environment_on_loopback_and_no_other(
    processes: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOT_YOURS", "1")
    (processes.checkout.root / ".env").write_text("PORT=1234\nSOURCE=b\n", encoding="utf-8")
    processes.write(
        {
            "a": _printing_environment(
                URL="http://b:${PORT}/x", DB_HOST="b", SOURCE_NAME="${SOURCE}", STATE_DIR="/state"
            ),
            "b": server("b", **{"x-process": {"skip": True}}),
        }
    )
    processes.runner.up()
    seen = _environment(processes)
    assert seen["URL"] == "http://127.0.0.1:1234/x"
    assert seen["DB_HOST"] == "127.0.0.1"
    assert seen["SOURCE_NAME"] == "b", "what comes out of .env is not a host"
    assert seen["STATE_DIR"] == str(processes.checkout.data / "a")
    assert Path(seen["STATE_DIR"]).is_dir()
    assert "NOT_YOURS" not in seen
    assert not [name for name in seen if name.startswith("SUPERVISOR_")]


def test_secrets_arrive_whole_and_are_nowhere_to_be_seen(processes: Tiny) -> None:
    (processes.checkout.root / ".env").write_text(f'PASSWORD="{SECRET.replace(chr(34), chr(92) + chr(34))}"\n')
    processes.write({"a": _printing_environment(PASSWORD="${PASSWORD}")})
    processes.runner.up()
    assert _environment(processes)["PASSWORD"] == SECRET
    arguments = [" ".join(it.info["cmdline"] or ()) for it in psutil.process_iter(["cmdline"])]
    assert not [it for it in arguments if "s3cr3t" in it]
    holders = [path for path in processes.checkout.run.rglob("*") if path.is_file() and "s3cr3t" in path.read_text()]
    assert holders == [processes.checkout.launchers / "a.sh"]
    assert stat.S_IMODE(holders[0].stat().st_mode) == 0o600
    assert stat.S_IMODE((processes.checkout.run / "supervisord.conf").stat().st_mode) == 0o600


def test_what_a_service_reads_is_part_of_its_definition(processes: Tiny) -> None:
    folder = processes.checkout.root / "contracts"
    folder.mkdir()
    (folder / "orders.yaml").write_text("status: draft\n", encoding="utf-8")
    processes.write({"a": server("a", **{"x-process": {"reads": ["contracts"]}}), "b": server("b")})
    processes.runner.up()
    before = processes.pids()
    processes.runner.up()
    assert processes.pids() == before
    (folder / "orders.yaml").write_text("status: active\n", encoding="utf-8")
    processes.runner.up()
    after = processes.pids()
    assert after["a"] != before["a"]
    assert after["b"] == before["b"]


def test_a_killed_supervisor_leaves_nothing_behind_after_the_next_up(processes: Tiny) -> None:
    processes.write({"a": server("a")})
    processes.runner.up()
    orphan = processes.pids()["a"]
    assert orphan
    supervisor = psutil.Process(int((processes.checkout.run / "supervisord.pid").read_text()))
    supervisor.kill()
    supervisor.wait(10)
    assert psutil.pid_exists(orphan)
    assert processes.runner.is_running()
    processes.runner.up()
    assert processes.states() == {"a": "healthy"}
    assert processes.pids()["a"] != orphan
    assert not psutil.pid_exists(orphan)


def test_down_takes_away_what_a_service_has_started(processes: Tiny) -> None:
    it = server("a")
    it["command"][2] = "sleep 1000 & echo $$! >child; " + it["command"][2]
    processes.write({"a": it})
    processes.runner.up()
    child = int((processes.checkout.root / "child").read_text())
    assert psutil.pid_exists(child)
    processes.runner.down()
    assert not psutil.pid_exists(child)


def test_a_checkout_too_deep_for_a_socket_works(processes: Tiny) -> None:
    deep = processes.checkout.root.joinpath(*["deeper" * 4] * 4)
    deep.mkdir(parents=True)
    tiny = Tiny(Checkout(deep), processes.make)
    assert len(os.fsencode(tiny.checkout.socket)) < 90
    tiny.write({"a": server("a")})
    try:
        tiny.runner.up()
        assert tiny.states() == {"a": "healthy"}
    finally:
        tiny.runner.clean()
        tiny.checkout.socket.parent.rmdir()


def test_a_server_that_ends_again_and_again_is_given_up(processes: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.runner.await_health.MOST_EXITS", 2)
    it = server("a")
    it["command"] = ["bash", "-c", "echo broken; exit 3"]
    it["healthcheck"]["start_period"] = "60s"
    processes.write({"a": it})
    with pytest.raises(ServiceFailedError, match="ended 2 times"):
        processes.runner.up()


def test_what_the_process_before_it_said_of_its_health_counts_for_nothing(
    processes: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.runner.await_health.MOST_EXITS", 2)
    it = server("a", environment={"STATE_DIR": "state"})
    it["healthcheck"]["test"] = ["CMD", "bash", "-c", 'find "$$STATE_DIR/alive" -newermt "-60 seconds" | grep -q .']
    it["command"] = ["bash", "-c", 'touch "$$STATE_DIR/alive"; exec sleep 600']
    processes.write({"a": it})
    processes.runner.up()
    it["command"] = ["bash", "-c", "sleep 0.5; exit 3"]
    processes.write({"a": it})
    with pytest.raises(ServiceFailedError, match="ended 2 times"):
        processes.runner.up()


def test_a_missing_program_is_named_before_anything_starts(processes: Tiny) -> None:
    it = server("b")
    it["command"] = ["infra/b/start"]
    processes.write({"a": server("a"), "b": it})
    with pytest.raises(ComposeFileError, match="b: infra/b/start does not exist"):
        processes.runner.up()
    assert processes.events() == []


def test_a_port_of_somebody_else_is_an_error_that_names_them(processes: Tiny) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        processes.write({"a": server("a", ports=[f"127.0.0.1:{port}:{port}"])})
        with pytest.raises(RunnerError, match=rf"a: port {port} is in use by .* \(process {os.getpid()}\)"):
            processes.runner.up()
    processes.runner.up()
    assert processes.states() == {"a": "healthy"}


def test_clean_deletes_state_and_keeps_settings(processes: Tiny) -> None:
    processes.write({"a": server("a", environment={"STATE_DIR": "/state"})})
    processes.runner.up()
    processes.runner.clean()
    assert not processes.checkout.data.exists()
    assert not processes.checkout.logs.exists()
    assert processes.checkout.env_file.exists()


def test_one_changing_command_at_a_time(processes: Tiny) -> None:
    with processes.checkout.exclusive("up"), pytest.raises(RunnerError, match=r"another command .* up \(process"):
        with processes.checkout.exclusive("down"):
            pass


def test_the_other_runner_is_refused_while_this_one_runs(processes: Tiny) -> None:
    processes.write({"a": server("a")})
    remember(processes.checkout.runner_file, "process")
    processes.runner.up()
    command = ["up", "--directory", str(processes.checkout.root)]
    answer = CliRunner().invoke(app, command, env={"RUNNER": "compose"})
    assert answer.exit_code == 2
    assert "make down" in answer.output
    assert CliRunner().invoke(app, command, env={"RUNNER": "process"}).exit_code == 0


def test_commands_say_and_return_how_it_is(processes: Tiny) -> None:
    processes.write({"a": server("a")})
    here = ["--directory", str(processes.checkout.root)]
    environment = {"RUNNER": "process"}
    invoke = CliRunner().invoke
    assert invoke(app, ["status", *here], env=environment).exit_code == 1
    up = invoke(app, ["up", *here], env=environment)
    assert (up.exit_code, "make status" in up.output) == (0, True)
    assert invoke(app, ["status", *here]).exit_code == 0
    assert '"ok": true' in invoke(app, ["status", "--json", *here]).output
    killed = invoke(app, ["kill", "a", *here])
    assert killed.output.startswith("a: killed process ")
    assert "a: back as process" in killed.output
    refused = invoke(app, ["clean", *here])
    assert refused.exit_code == 2
    assert "YES=1" in refused.output
    assert invoke(app, ["down", *here]).exit_code == 0
    assert invoke(app, ["clean", *here], env={"YES": "1"}).exit_code == 0
    assert not processes.checkout.run.exists()
