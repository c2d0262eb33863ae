"""The command line without a stack: settings, what it prints, how it fails."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from services.cli.dlq import hexdump
from services.cli.letters import parse_position, parse_since
from services.cli.main import app
from services.cli.schema import entries
from services.stack.endpoints import StackSettings
from services.stack.errors import NotConfigured

SECRETS = {"SHOP_PASSWORD": "p@ss/word", "OPERATOR_S3_ACCESS_KEY": "access", "OPERATOR_S3_SECRET_KEY": "se'cret",
           "LINEAGE_API_KEY": "key"}  # fmt: skip
PORTS = {"SOURCE_DB_PORT": "5442", "KAFKA_PORT": "9092", "SCHEMA_REGISTRY_PORT": "8081", "CONNECT_PORT": "8083",
         "CATALOG_PORT": "8181", "OBJECT_STORE_PORT": "9000", "LINEAGE_PORT": "8090"}  # fmt: skip
OTHERS = {"WAREHOUSE": "s3://lake/warehouse", "S3_REGION": "us-east-1", "S3_BUCKET": "lake", "SOURCE_NAME": "shop",
          "CAPTURED_SCHEMAS": "public, sales", "UNAVAILABLE_VALUE": "u" * 32}  # fmt: skip
ENDPOINTS = {"SOURCE_DB_HOST", "KAFKA_BOOTSTRAP", "SCHEMA_REGISTRY_URL", "CONNECT_URL", "CATALOG_URI", "S3_ENDPOINT",
             "LINEAGE_URL"}  # fmt: skip


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in {*SECRETS, *PORTS, *OTHERS, *ENDPOINTS}:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def env_file(tmp_path: Path) -> Path:
    path = tmp_path / ".env"
    values = {**SECRETS, **PORTS, **OTHERS}
    path.write_text("".join(f'{name}="{value}"\n' for name, value in values.items()))
    return path


def test_on_the_host_ports_make_endpoints(env_file: Path) -> None:
    settings = StackSettings.load(env_file)
    assert settings.kafka_bootstrap == "127.0.0.1:9092"
    assert settings.catalog_uri == "http://127.0.0.1:8181"
    assert settings.source_dsn.get_secret_value() == "postgresql://shop:p%40ss%2Fword@127.0.0.1:5442/shop"
    assert settings.schemas == ("public", "sales")
    assert "p@ss" not in repr(settings)


def test_in_a_container_the_environment_wins(env_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "kafka:19092")
    monkeypatch.setenv("SOURCE_DB_HOST", "source-db")
    settings = StackSettings.load(env_file)
    assert settings.kafka_bootstrap == "kafka:19092"
    assert "@source-db:5442/" in settings.source_dsn.get_secret_value()


def test_a_missing_setting_is_named_and_no_secret_shown(env_file: Path) -> None:
    env_file.write_text(env_file.read_text().replace("SHOP_PASSWORD", "X"))
    with pytest.raises(NotConfigured, match="SHOP_PASSWORD") as caught:
        StackSettings.load(env_file)
    assert "se'cret" not in str(caught.value)
    assert "isn't valid" not in str(caught.value)


def test_a_setting_that_is_not_valid_is_told_with_the_reason_and_without_its_value(
    env_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DB_PORT", "5442x")
    with pytest.raises(NotConfigured, match="SOURCE_DB_PORT isn't valid: Input should be a valid integer") as caught:
        StackSettings.load(env_file)
    assert str(env_file) in str(caught.value)
    assert "5442x" not in str(caught.value)
    assert "missing" not in str(caught.value)


def test_env_prints_the_contracts_names(env_file: Path) -> None:
    result = CliRunner().invoke(app, ["env", "--json"])
    assert result.exit_code == 0
    assert list(json.loads(result.stdout)) == [
        "source_dsn", "kafka_bootstrap", "schema_registry_url", "connect_url", "catalog_uri", "warehouse",
        "s3_endpoint", "s3_region", "s3_bucket", "s3_access_key", "s3_secret_key",
        "lineage_url", "lineage_api_key",
    ]  # fmt: skip


def test_env_can_be_read_by_a_shell(env_file: Path) -> None:
    lines = CliRunner().invoke(app, ["env"]).stdout.splitlines()
    assert "kafka_bootstrap=127.0.0.1:9092" in lines
    assert """s3_secret_key='se'"'"'cret'""" in lines


@pytest.mark.parametrize("command", [["table", "list"], ["wait", "--timeout", "1"], ["dlq", "list"], ["verify"]])
def test_a_stack_that_is_down_is_said_so(env_file: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    for name in ("KAFKA_PORT", "CATALOG_PORT", "SOURCE_DB_PORT"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr("services.stack.offsets.ANSWER_SECONDS", 0.5)
    result = CliRunner().invoke(app, [*command, "--json"])
    assert result.exit_code == 2
    assert "127.0.0.1:1" in json.loads(result.stdout)["error"]
    assert "make up" in result.stderr


@pytest.mark.parametrize("parts", [["a.b", "0", "7"], ["a.b:0:7"], ["a.b/0/7"]])
def test_positions(parts: list[str]) -> None:
    assert parse_position(parts) == ("a.b", 0, 7)


@pytest.mark.parametrize("parts", [["a.b"], ["a:b:c"], ["a", "1"], [":1:2"]])
def test_no_positions(parts: list[str]) -> None:
    with pytest.raises(ValueError, match="TOPIC:PARTITION:OFFSET"):
        parse_position(parts)


def test_since() -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert parse_since("90m", now) == datetime(2026, 1, 1, 22, 30, tzinfo=UTC)
    assert parse_since("2026-01-01", now) == datetime(2026, 1, 1, tzinfo=UTC)


def test_hexdump() -> None:
    assert hexdump(b"\x00abc") == [f"00000000  {'00 61 62 63':<47}  .abc"]


def test_schema_history_tells_the_log_position_as_postgresql_prints_it() -> None:
    told = [{"changes": ["add age int default 7"], "lsn": (3 << 32) + 0xAB12, "at": "2026-03-01T10:00:00Z"},
            {"changes": ["add note string"]}]  # fmt: skip
    assert entries({"lakehouse.schema-history": json.dumps(told)}) == [
        {"at": "2026-03-01T10:00:00Z", "lsn": "3/AB12", "done": ["add age int default 7"]},
        {"at": None, "lsn": None, "done": ["add note string"]},
    ]
    assert entries({}) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dlq", "replay"], "say which"),
        (["replay"], "say which"),
        (["dlq", "discard", "--because", "x"], "say which"),
        (["dlq", "discard", "--because", " ", "--reason", "not_avro"], "--because needs a reason"),
        (["dlq", "replay", "shop.public.orders"], "isn't TOPIC:PARTITION:OFFSET"),
        (["replay", "--since", "yesterday"], "neither like 15m"),
    ],
)
def test_letters_are_named_before_anything_is_done(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert said in result.stderr
