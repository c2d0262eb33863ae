"""Connect's answers, and the connector's settings."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from pipelines.sources.base.capture import LeftOut
from pipelines.sources.postgres.capture import Capture, connector_config, literal, quote, taken_in
from services.capture import copies
from services.capture.connect import Connect
from services.capture.errors import NotReady, Refused

ROOT = Path(__file__).parents[4]
TRACE = (
    "org.apache.kafka.connect.errors.ConnectException: An exception occurred in the change event producer.\n"
    "\tat io.debezium…\nCaused by: io.debezium.DebeziumException: Couldn't\n"
    '\t... 5 more\nCaused by: org.postgresql.util.PSQLException: ERROR: publication "lakehouse" does not exist\n\tat …'
)


def connect(status: int, body: Any) -> Connect:
    return Connect("http://connect", transport=httpx.MockTransport(lambda _: httpx.Response(status, json=body)))


def test_the_last_cause_is_the_error() -> None:
    body = {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "FAILED", "trace": TRACE}]}
    state = connect(200, body).state("shop")
    assert state is not None
    assert state.failed == 'org.postgresql.util.PSQLException: ERROR: publication "lakehouse" does not exist'
    assert not state.running


@pytest.mark.parametrize(
    ("tasks", "running"),
    [([{"id": 0, "state": "RUNNING"}], True), ([{"id": 0, "state": "UNASSIGNED"}], False), ([], False)],
    ids=["runs", "not yet", "no task"],
)
def test_running(tasks: list[dict[str, Any]], running: bool) -> None:
    state = connect(200, {"connector": {"state": "RUNNING"}, "tasks": tasks}).state("shop")
    assert state is not None
    assert (state.running, state.failed) == (running, None)


def test_a_missing_connector_is_none() -> None:
    assert connect(404, {"message": "not found"}).state("shop") is None
    assert connect(404, {"message": "not found"}).config("shop") is None


@pytest.mark.parametrize(
    ("status", "error"),
    [(409, NotReady), (500, NotReady), (400, Refused)],
    ids=["rebalancing", "broken", "bad settings"],
)
def test_errors_say_what_to_do(status: int, error: type[Exception]) -> None:
    with pytest.raises(error, match="make logs s=connect"):
        connect(status, {"message": "because"}).configure("shop", {})


def capture(**changed: Any) -> Capture:
    given: dict[str, Any] = {
        "host": "source-db", "port": 5442, "database": "shop", "source_name": "shop", "schemas": ("public", "a,b.c"),
        "registry_url": "http://registry", "unavailable_value": "__unavailable__", "topic_partitions": 4,
    }  # fmt: skip
    return Capture(**given | changed)


def config(**changed: Any) -> dict[str, str]:
    return connector_config(capture(**changed))


def test_settings_hold_no_secret_and_are_texts() -> None:
    settings = config()
    assert settings["database.password"] == "${env:DEBEZIUM_PASSWORD}"
    assert json.loads(json.dumps(settings)) == settings
    assert all(isinstance(value, str) for value in settings.values())


def test_lineage_is_told_by_events_of_the_task_only() -> None:
    settings = config()
    lineage = {key: value for key, value in settings.items() if key.startswith("openlineage.")}
    assert lineage == {
        "openlineage.integration.enabled": "true",
        "openlineage.integration.config.file.path": "${env:LINEAGE_CONFIG}",
        "openlineage.integration.job.namespace": "lakehouse",
    }
    # Debezium's transform that tells of topics ends the task at a record without headers (decision 036).
    assert settings["transforms"] == "underscores"


def test_connect_resolves_what_the_settings_refer_to() -> None:
    worker = (ROOT / "infra/connect/worker.properties").read_text(encoding="utf-8")
    allowed = re.search(r"^config\.providers\.env\.param\.allowlist\.pattern=(.*)$", worker, re.MULTILINE)
    assert allowed is not None
    referred = set(re.findall(r"\$\{env:(\w+)\}", " ".join(config().values())))
    assert referred == set(allowed[1].split("|"))


def test_names_are_patterns_of_themselves_only() -> None:
    assert config()["schema.include.list"] == r"(?-i)public,(?-i)a\x2cb\.c,(?-i)lakehouse"
    own = r"(?-i)lakehouse\.exclusions,(?-i)lakehouse\.rereads,(?-i)lakehouse\.seen"
    assert config()["table.exclude.list"] == own
    assert config(left_out=("public.b", "public.a"))["table.exclude.list"] == rf"{own},(?-i)public\.a,(?-i)public\.b"


@pytest.mark.parametrize(
    ("render", "given", "rendered"),
    [
        (quote, 'we"ird', '"we""ird"'),
        (literal, "it's", "'it''s'"),
        (literal, "back\\slash'", " E'back\\\\slash'''"),
    ],
    ids=["name", "text", "backslash"],
)
def test_quoting(render: Any, given: str, rendered: str) -> None:
    assert render(given) == rendered


@pytest.mark.parametrize(
    ("schemas", "left_out", "found"),
    [
        (("public",), ("public.part_1", "public.a,b"), set()),
        (("public",), ("public.a,b", "public.t"), {"public.part_1"}),
        (("public", "later"), (), {"public.part_1", "public.a,b", "later.t"}),
        (("later",), ("later.t",), set()),
    ],
    ids=["the same", "no partition any more", "another schema, nothing left out", "left out from the first"],
)
def test_tables_that_were_not_read_before(schemas: tuple[str, ...], left_out: tuple[str, ...], found: set[str]) -> None:
    before = connector_config(capture(schemas=("public",), left_out=("public.part_1", "public.a,b")))
    now = connector_config(capture(schemas=schemas, left_out=left_out))
    tables = ("public.t", "public.part_1", "public.a,b", "later.t")
    assert taken_in(tables, before, now) == found


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        (("public.t.v", "public.t.w"), ("public.t.w",), {"public.t"}),
        (("public.t.v",), ("public.t.v", "public.t.w"), set()),
        (("public.t2.v",), (), {"public.t2"}),
        ((), ("public.t.v",), set()),
    ],
    ids=["one of two", "one more is excluded", "of a table of a similar name", "the first is excluded"],
)
def test_tables_of_which_a_column_was_not_read_before(
    before: tuple[str, ...], now: tuple[str, ...], found: set[str]
) -> None:
    configs = [connector_config(capture(schemas=("public",), excluded=columns)) for columns in (before, now)]
    assert taken_in(("public.t", "public.t2"), *configs) == found


def test_what_is_to_be_copied_outlives_the_process(tmp_path: Path) -> None:
    assert copies.read(tmp_path) == set()
    copies.add(tmp_path, frozenset({"public.a"}))
    copies.add(tmp_path, frozenset({"public.a", "public.ü"}))
    assert copies.read(tmp_path) == {"public.a", "public.ü"}
    copies.clear(tmp_path)
    assert copies.read(tmp_path) == set()


@pytest.mark.parametrize(
    ("partitions", "tables", "differs"),
    [({"p.1", "p.2"}, set(), False), ({"p.1"}, set(), False), (set(), set(), True), ({"p.1"}, {"p.t"}, True)],
    ids=["another partition", "nothing", "a partition less", "a table more"],
)
def test_when_a_connector_must_be_told(partitions: set[str], tables: set[str], differs: bool) -> None:
    told = LeftOut(frozenset(), frozenset({"p.1"}), frozenset())
    assert LeftOut(frozenset(tables), frozenset(partitions), frozenset()).differs_from(told) is differs


@pytest.mark.parametrize(
    ("offset", "tables"),
    [
        ({"lsn": 7}, set()),
        (
            {"incremental_snapshot_collections": json.dumps([
                {"incremental_snapshot_collections_id": "public.t", "incremental_snapshot_collections_key": None},
                {"incremental_snapshot_collections_id": "billing.t"},
            ])},
            {"public.t", "billing.t"},
        ),
    ],
    ids=["none", "two"],
)  # fmt: skip
def test_the_tables_that_are_read_again_are_in_the_connectors_offset(offset: dict[str, Any], tables: set[str]) -> None:
    asked = connect(200, {"offsets": [{"partition": {"server": "shop"}, "offset": offset}]})
    assert asked.tables_read("shop") == tables
    assert connect(200, {"offsets": []}).tables_read("shop") == frozenset()
