import re
import stat
from pathlib import Path

import pytest

from infra.toolchain import environment

ROOT = Path(__file__).parents[3]


def test_every_variable_of_the_stack_has_a_value() -> None:
    compose = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    required = set(re.findall(r"\$\{([A-Z0-9_]+)\}", compose))
    text, added = environment.complete("")
    assert required == set(added)
    assert set(environment.assigned(text)) == required


def test_values_need_no_quoting_anywhere() -> None:
    text, _ = environment.complete("")
    for name, value in environment.assigned(text).items():
        assert re.fullmatch(r"[A-Za-z0-9_.:/=,-]+", value), name


def test_secrets_differ_between_installations_and_among_themselves() -> None:
    first = environment.assigned(environment.complete("")[0])
    second = environment.assigned(environment.complete("")[0])
    secrets = [name for group in environment.GROUPS for name, value in group.values.items() if callable(value)]
    assert all(first[name] != second[name] for name in secrets)
    assert len({first[name] for name in secrets}) == len(secrets)


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        pytest.param("SHOP_PASSWORD=mine\n", "SHOP_PASSWORD=mine\n", id="a password of one's own"),
        pytest.param("# a note\nKAFKA_PORT=9999", "# a note\nKAFKA_PORT=9999\n", id="comment and no last newline"),
        pytest.param("export KAFKA_PORT=9999\n", "export KAFKA_PORT=9999\n", id="shell style"),
        pytest.param("OTHER=1\n", "OTHER=1\n", id="a variable that is not ours"),
    ],
)
def test_what_is_set_stays_as_it_is(before: str, kept: str) -> None:
    text, added = environment.complete(before)
    assert text.startswith(kept)
    assert not set(environment.assigned(before)) & set(added)
    assert environment.complete(text) == (text, [])


def test_a_blank_value_counts_as_missing() -> None:
    _, added = environment.complete("SHOP_PASSWORD=\n")
    assert "SHOP_PASSWORD" in added


def test_the_file_is_private_even_if_it_was_not(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    assert environment.write(path)
    path.chmod(0o644)
    before = path.read_text(encoding="utf-8")
    assert environment.write(path) == []
    assert path.read_text(encoding="utf-8") == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == [".env"]


def test_a_cluster_id_is_22_characters_and_no_option() -> None:
    ids = {environment.cluster_id() for _ in range(500)}
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", value) for value in ids)
