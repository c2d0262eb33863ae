"""One behaviour suite over both runners."""

from __future__ import annotations

import pytest

from services.runner.errors import ComposeFileError, RunnerError, ServiceFailedError
from tests.runner.conftest import Tiny, one_shot, server

HEALTHY, COMPLETED = "service_healthy", "service_completed_successfully"


def test_a_service_starts_once_what_it_needs_is_healthy_or_has_completed(tiny: Tiny) -> None:
    tiny.write(
        {
            "last": server("last", {"setup": COMPLETED, "second": HEALTHY}),
            "setup": one_shot(
                "echo setup works >>events; test -e first.up && echo setup done >>events", {"first": HEALTHY}
            ),
            "second": server("second"),
            "first": server("first"),
        }
    )
    assert sorted(tiny.runner.up()) == ["first", "last", "second", "setup"]
    events = tiny.events()
    assert events.index("first starts") < events.index("setup works") < events.index("setup done")
    assert events[-1] == "last starts"
    assert tiny.states() == {"first": "healthy", "second": "healthy", "last": "healthy", "setup": "completed"}
    assert tiny.runner.status().ok


def test_a_second_up_leaves_what_is_healthy_alone(tiny: Tiny) -> None:
    tiny.write({"a": server("a"), "b": server("b", {"a": HEALTHY})})
    tiny.runner.up()
    before = tiny.pids()
    tiny.runner.up()
    assert tiny.pids() == before
    assert tiny.events() == ["a starts", "b starts"]


def test_a_service_that_is_defined_otherwise_is_restarted_and_no_other(tiny: Tiny) -> None:
    tiny.write({"a": server("a"), "b": server("b")})
    tiny.runner.up()
    before = tiny.pids()
    tiny.write({"a": server("a"), "b": server("b", environment={"NEW": "1"})})
    tiny.runner.up()
    after = tiny.pids()
    assert after["a"] == before["a"]
    assert after["b"] != before["b"]


def test_a_killed_server_comes_back(tiny: Tiny) -> None:
    tiny.write({"a": server("a")})
    tiny.runner.up()
    before = tiny.pids()["a"]
    killed = tiny.runner.kill("a")
    assert killed.pid == before
    assert killed.new_pid not in (None, before)
    assert tiny.events() == ["a starts", "a starts"], "SIGKILL leaves no time to say goodbye"
    (report,) = tiny.runner.status().services
    assert (report.state, report.restarts, report.pid) == ("healthy", 1, killed.new_pid)


def test_what_a_service_keeps_in_its_state_can_be_read(tiny: Tiny) -> None:
    keeper = server("keeper", environment={"STATE_DIR": "/work/.lakehouse/data/keeper"})
    keeper["command"][-1] = 'mkdir -p "$$STATE_DIR"; echo 42 >"$$STATE_DIR/answer"; ' + keeper["command"][-1]
    tiny.write({"keeper": keeper, "other": server("other")})
    tiny.runner.up()
    assert tiny.runner.kept("keeper", "answer") == "42\n"
    assert tiny.runner.kept("keeper", "question") is None
    assert tiny.runner.kept("other", "answer") is None


def test_a_command_runs_beside_a_service(tiny: Tiny, capfd: pytest.CaptureFixture[str]) -> None:
    tiny.write({"a": server("a", environment={"ANSWER": "42"}), "b": server("b")})
    tiny.runner.up(["a"])
    assert tiny.runner.run("a", ["sh", "-c", 'echo "it is $ANSWER"; exit 3']) == 3
    assert "it is 42" in capfd.readouterr().out
    with pytest.raises(RunnerError, match="b does not run"):
        tiny.runner.run("b", ["true"])


def test_down_stops_dependents_first_and_keeps_state(tiny: Tiny) -> None:
    tiny.write({"a": server("a"), "b": server("b", {"a": HEALTHY})})
    tiny.runner.up()
    tiny.runner.down()
    assert tiny.events()[-2:] == ["b stops", "a stops"]
    assert not tiny.runner.is_running()
    assert set(tiny.states().values()) == {"stopped"}
    assert not tiny.runner.status().ok
    tiny.runner.down()
    tiny.runner.up()
    assert tiny.runner.status().ok


def test_down_stops_dependents_first_also_where_a_one_shot_is_between(tiny: Tiny) -> None:
    slow = server("b", {"setup": COMPLETED})
    slow["command"][-1] = slow["command"][-1].replace("echo b stops", "sleep 1; echo b stops")
    tiny.write({"a": server("a"), "setup": one_shot("true", {"a": HEALTHY}), "b": slow})
    tiny.runner.up()
    tiny.runner.down()
    assert tiny.events()[-2:] == ["b stops", "a stops"]


def test_a_one_shot_that_fails_is_tried_again(tiny: Tiny) -> None:
    tiny.write(
        {"setup": one_shot("echo try >>events; test $(wc -l <events) -ge 3"), "a": server("a", {"setup": COMPLETED})}
    )
    tiny.runner.up()
    assert tiny.events() == ["try", "try", "try", "a starts"]


def test_a_one_shot_that_goes_on_failing_is_an_error_with_its_last_words(tiny: Tiny) -> None:
    tiny.write(
        {
            "setup": one_shot("echo try >>events; echo no luck today; exit 7", restart="on-failure:1"),
            "a": server("a", {"setup": COMPLETED}),
        }
    )
    with pytest.raises(ServiceFailedError) as raised:
        tiny.runner.up()
    assert raised.value.service == "setup"
    message = raised.value.explain()
    assert "ended with 7" in message
    assert "no luck today" in message
    assert "make logs s=setup" in message
    assert tiny.events() == ["try", "try"]
    assert tiny.states()["setup"] == "failed"


def test_a_server_that_does_not_get_healthy_is_an_error_with_its_last_words(tiny: Tiny) -> None:
    sick = server("sick")
    sick["healthcheck"] = {"test": ["CMD", "false"], "interval": "200ms", "retries": 3, "timeout": "2s"}
    tiny.write({"sick": sick, "a": server("a", {"sick": HEALTHY})})
    with pytest.raises(ServiceFailedError) as raised:
        tiny.runner.up()
    assert raised.value.service == "sick"
    assert "sick is up" in raised.value.explain()
    assert "make logs s=sick" in raised.value.explain()
    assert tiny.events() == ["sick starts"], "what needs it never starts"
    assert not tiny.runner.status().ok


def test_an_optional_service_runs_when_its_profile_is_chosen(tiny: Tiny) -> None:
    tiny.write({"a": server("a"), "extra": server("extra", {"a": HEALTHY}, profiles=["more"])})
    assert tiny.runner.up() == ["a"]
    assert tiny.states() == {"a": "healthy"}
    assert sorted(tiny.runner.up(profiles=["more"])) == ["a", "extra"]
    assert tiny.states() == {"a": "healthy", "extra": "healthy"}
    tiny.runner.down()
    assert not tiny.runner.is_running()
    tiny.runner.up()
    assert tiny.runner.status().ok, "what ran some other time, and nobody asked for now, isn't missed"


def test_a_subset_is_started_with_what_it_needs(tiny: Tiny) -> None:
    tiny.write({"a": server("a"), "b": server("b", {"a": HEALTHY}), "c": server("c")})
    assert sorted(tiny.runner.up(["b"])) == ["a", "b"]
    assert tiny.states()["c"] == "stopped"


def test_logs_are_shown(tiny: Tiny, capfd: pytest.CaptureFixture[str]) -> None:
    tiny.write({"a": server("a"), "b": server("b")})
    tiny.runner.up()
    assert tiny.runner.logs("a") == 0
    one = capfd.readouterr().out
    assert "a is up" in one
    assert "b is up" not in one
    assert tiny.runner.logs() == 0
    both = capfd.readouterr().out
    assert "a is up" in both
    assert "b is up" in both


def test_unknown_and_stopped_services_are_refused(tiny: Tiny) -> None:
    tiny.write({"a": server("a")})
    for refused in (
        lambda: tiny.runner.up(["kafak"]),
        lambda: tiny.runner.kill("kafak"),
        lambda: tiny.runner.logs("kafak"),
    ):
        with pytest.raises(ComposeFileError, match="no service kafak"):
            refused()
    with pytest.raises(RunnerError, match="does not run"):
        tiny.runner.kill("a")
