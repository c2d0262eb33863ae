"""Reading docker-compose.yml."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.settings import MirrorSettings
from services.runner.checkout import Checkout
from services.runner.compose_file import Service, Stack, parse, paths, read, seconds
from services.runner.errors import ComposeFileError
from services.runner.loopback import inherited, on_loopback

SECRET = "hunter2"


def stack(values: dict[str, str] | None = None, **services: dict[str, Any]) -> Stack:
    filled = {name: {"command": ["true"], **service} for name, service in services.items()}
    return parse({"services": filled}, values or {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2s", 2.0), ("500ms", 0.5), ("1m30s", 90.0), ("120s", 120.0), ("1h", 3600.0), ("1.5s", 1.5), ("1m", 60.0)],
)
def test_durations(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "5", "5 s", "-1s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        seconds(text)


@pytest.mark.parametrize(
    ("written", "values", "expected"),
    [
        pytest.param("${A}", {"A": "1"}, "1", id="variable"),
        pytest.param("x${A}y${B}", {"A": "1", "B": "2"}, "x1y2", id="several"),
        pytest.param("${A:-d}", {}, "d", id="default"),
        pytest.param("${A:-d}", {"A": ""}, "d", id="default stands in for empty"),
        pytest.param("${A:-}", {}, "", id="empty default"),
        pytest.param("${A}", {"A": ""}, "", id="empty is not missing"),
        pytest.param("$$A $${B}", {"A": "1", "B": "2"}, "$A ${B}", id="dollar"),
        pytest.param("${A}", {"A": "${B} $x"}, "${B} $x", id="a value is taken as it is"),
    ],
)
def test_variables(written: str, values: dict[str, str], expected: str) -> None:
    assert stack(values, a={"environment": {"X": written}}).services["a"].environment["X"] == expected


def test_a_missing_variable_is_named_with_the_services_that_want_it() -> None:
    with pytest.raises(ComposeFileError, match=r"KAFKA_PORT is not set \(services a, b\)") as raised:
        stack(a={"environment": {"X": "${KAFKA_PORT}"}}, b={"command": ["x", "${KAFKA_PORT}"]})
    assert "make up" in raised.value.explain()


def test_a_variable_that_only_compose_needs_may_be_missing() -> None:
    assert stack(a={"image": "${IMAGE}", "volumes": ["${X}:/x"]}).services["a"].command == ("true",)


@pytest.mark.parametrize("written", ["$A", "${A:?must be set}", "${A-d}x$"])
def test_what_the_runners_would_read_differently_is_refused(written: str) -> None:
    with pytest.raises(ComposeFileError):
        stack({"A": "1"}, a={"environment": {"X": written}})


@pytest.mark.parametrize(
    ("service", "where"),
    [
        pytest.param({"command": "start me"}, "command", id="command as text"),
        pytest.param({"restart": "sometimes"}, "restart", id="restart"),
        pytest.param({"healthcheck": {"test": "curl x"}}, "test", id="health check as text"),
        pytest.param({"healthcheck": {"test": ["CMD", "x"], "interval": "soon"}}, "interval", id="duration"),
        pytest.param({"depends_on": {"b": {"condition": "service_happy"}}}, "condition", id="condition"),
        pytest.param({"depends_on": {"b": {"condition": "service_healthy"}}}, "b, which is no service", id="unknown"),
        pytest.param({"x-process": {"skipp": True}}, "skipp", id="misspelt extension"),
    ],
)
def test_mistakes_are_named_and_values_are_not_shown(service: dict[str, Any], where: str) -> None:
    with pytest.raises(ComposeFileError) as raised:
        stack({"P": SECRET}, a={"environment": {"PASSWORD": "${P}"}, **service})
    assert where in str(raised.value)
    assert SECRET not in str(raised.value)


def test_the_text_form_of_a_service_holds_no_environment() -> None:
    assert SECRET not in repr(stack(a={"environment": {"PASSWORD": SECRET}}))


@pytest.mark.parametrize(
    ("service", "keeps_running", "attempts"),
    [
        ({"restart": "unless-stopped"}, True, 1),
        ({"restart": "always"}, True, 1),
        ({"restart": "no"}, False, 1),
        ({}, False, 1),
        ({"restart": "on-failure:10"}, False, 11),
        ({"restart": "on-failure"}, False, 6),
    ],
)
def test_restart_policies(service: dict[str, Any], keeps_running: bool, attempts: int) -> None:
    read_service = stack(a=service).services["a"]
    assert (read_service.keeps_running, read_service.attempts) == (keeps_running, attempts)


def test_a_skipped_service_is_not_waited_for_and_not_run() -> None:
    healthy = {"condition": "service_healthy"}
    read_stack = stack(
        a={"depends_on": {"b": healthy, "c": healthy}}, b={"x-process": {"skip": True}}, c={}, d={"profiles": ["more"]}
    )
    assert read_stack.dependencies("a") == {"c": "service_healthy"}
    assert read_stack.selection() == ["a", "c"]
    assert read_stack.selection(profiles=["more"]) == ["a", "c", "d"]
    assert read_stack.selection(["a"]) == ["a", "c"]
    assert read_stack.selection(["d"]) == ["d"]
    with pytest.raises(ComposeFileError, match="no part in the process runner"):
        read_stack.selection(["b"])


def test_a_profile_that_no_service_has_is_refused() -> None:
    with pytest.raises(ComposeFileError) as refused:
        stack(a={}, b={"profiles": ["more", "less"]}).selection(profiles=["more", "mroe"])
    assert str(refused.value) == "there is no profile 'mroe'"
    assert refused.value.next_step == "choose from: less, more"


@pytest.mark.parametrize(
    ("variable", "written", "expected"),
    [
        pytest.param("URL", "http://kafka:${PORT}/x", "http://127.0.0.1:${PORT}/x", id="variable port"),
        pytest.param("URL", "kafka:9092", "127.0.0.1:9092", id="port"),
        pytest.param("URL", "A://1.2.3.4:1,B://kafka:2", "A://1.2.3.4:1,B://127.0.0.1:2", id="list"),
        pytest.param("DB_HOST", "kafka", "127.0.0.1", id="host"),
        pytest.param(
            "URL", "jdbc:postgresql://source-db:5432/x", "jdbc:postgresql://127.0.0.1:5432/x", id="dashed name"
        ),
        pytest.param("NAME", "kafka", "kafka", id="a name that is no host"),
        pytest.param("URL", "not-kafka:1", "not-kafka:1", id="end of a longer name"),
        pytest.param("URL", "kafka-x:1", "kafka-x:1", id="begin of a longer name"),
        pytest.param("X", "s3://kafka/x", "s3://kafka/x", id="no port"),
        pytest.param("X", "${kafka:-1}", "${kafka:-1}", id="variable of that name"),
        pytest.param("BIND_ADDRESS", "0.0.0.0", "127.0.0.1", id="bind address"),
        pytest.param("STATE_DIR", "/state", "/data/a", id="state"),
        pytest.param("FLAG", True, "true", id="truth value"),
        pytest.param("COUNT", 3, "3", id="number"),
    ],
)
def test_environment_on_loopback(variable: str, written: object, expected: str) -> None:
    raw = {"services": {"a": {"environment": {variable: written}}, "kafka": {}, "source-db": {}}}
    changed = on_loopback(raw, Path("/data"))
    assert changed["services"]["a"]["environment"] == {variable: expected}
    assert raw["services"]["a"]["environment"] == {variable: written}, "the input is left alone"


def test_what_differs_in_the_process_runner_has_the_last_word() -> None:
    service = {
        "environment": {"MASTER": "spark://m:1"},
        "x-process": {"environment": {"MASTER": "local[*]", "NEW": "1"}},
    }
    changed = on_loopback({"services": {"a": service, "m": {}}}, Path("/data"))
    assert changed["services"]["a"]["environment"] == {"MASTER": "local[*]", "NEW": "1"}


def test_services_inherit_little() -> None:
    kept = inherited({"PATH": "/bin", "TOKEN": "x", "TZ": "UTC", "NO_PROXY": "corp"}, Path("/t"))
    assert kept == {
        "PATH": "/t/venv/bin:/bin",
        "TZ": "UTC",
        "NO_PROXY": "corp,127.0.0.1,localhost",
        "no_proxy": "corp,127.0.0.1,localhost",
    }


def test_the_real_file_is_understood_in_both_ways() -> None:
    raw = read([Checkout.this().compose_file])
    values = _AnyValue()
    for document in (raw, on_loopback(raw, Path("/data"))):
        understood = parse(document, values)
        assert {"source-db", "kafka", "mirror"} <= set(understood.services)
    kafka: Service = understood.services["kafka"]
    assert kafka.environment["BIND_ADDRESS"] == "127.0.0.1"
    assert not [
        (service.name, variable)
        for service in understood.services.values()
        if not service.process.skip
        for variable, value in service.environment.items()
        for name in understood.services
        if f"//{name}:" in value or value.startswith(f"{name}:")
    ]


def test_mirror_and_console_share_the_folder_of_failpoints_in_both_ways() -> None:
    raw = read([Checkout.this().compose_file])
    loopback = on_loopback(raw, Path(".lakehouse/data"))
    for document, folder in ((raw, "/failpoints"), (loopback, ".lakehouse/data/mirror/failpoints")):
        services = parse(document, _AnyValue()).services
        given = services["mirror"].environment
        # Only what the property is made of: the settings as a whole need real ones.
        mirror: Any = SimpleNamespace(failpoints_dir=given["FAILPOINTS_DIR"], state_dir=Path(given["STATE_DIR"]))
        looks_in = MirrorSettings.failpoints.fget(mirror)  # type: ignore[attr-defined]
        assert str(looks_in) == services["console"].environment["FAILPOINTS_DIR"] == folder
    assert [name for name, each in raw["services"].items() if "failpoints:/failpoints" in each.get("volumes", ())] == [
        "mirror", "console",
    ]  # fmt: skip
    assert "failpoints" in raw["volumes"]


class _AnyValue(dict[str, str]):
    """Every variable is 1."""

    def __contains__(self, key: object) -> bool:
        return True

    def get(self, key: str, default: str | None = None) -> str:  # type: ignore[override]
        return "1"


def test_a_file_is_laid_over_the_usual_one() -> None:
    files = paths(Checkout.this().compose_file, {"COMPOSE_FILE": "docker-compose.yml:infra/faults/proxies.yml"})
    below, both = (read(part) for part in (files[:1], files))
    mirrors = [raw["services"]["mirror"]["environment"] for raw in (below, both)]
    assert (mirrors[0]["CATALOG_URI"], mirrors[0]["S3_REGION"]) == ("http://catalog:${CATALOG_PORT}", "${S3_REGION}")
    assert mirrors[1] == mirrors[0] | mirrors[1]
    assert mirrors[1]["CATALOG_URI"].startswith("http://faults:")
    assert set(both["services"]) - set(below["services"]) == {"faults"}
