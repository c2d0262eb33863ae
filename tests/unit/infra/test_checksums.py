import hashlib
import re
from pathlib import Path

import pytest

from infra.toolchain import checksums
from infra.toolchain.errors import ChecksumMismatch

ROOT = Path(__file__).parents[3]
A, B = "a" * 64, "b" * 64


def test_what_is_rendered_is_parsed() -> None:
    pins = {"kafka": {"x.jar": A, "y.jar": B}, "postgres-arm64": {"p.jar": A}}
    assert checksums.parse(checksums.render(pins)) == pins


@pytest.mark.parametrize("line", ["nonsense", f"{A} kafka/x.jar", f"{A}  x.jar", f"{A[:-1]}  kafka/x.jar"])
def test_a_line_that_is_no_checksum_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match="line 2"):
        checksums.parse(f"# a comment\n{line}\n")


def test_exactly_the_pinned_files_pass() -> None:
    checksums.verify("kafka", {"x.jar": A}, {"x.jar": A})


@pytest.mark.parametrize(
    ("found", "message"),
    [
        pytest.param({"x.jar": B}, "x.jar has SHA-256 bbb", id="another content"),
        pytest.param({}, "x.jar is missing", id="a file less"),
        pytest.param({"x.jar": A, "evil.jar": B}, "evil.jar is not pinned", id="a file more"),
    ],
)
def test_anything_else_is_refused(found: dict[str, str], message: str) -> None:
    with pytest.raises(ChecksumMismatch, match=message):
        checksums.verify("kafka", found, {"x.jar": A})


def test_digests_are_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "x.jar").write_bytes(b"content")
    (tmp_path / "folder").mkdir()
    assert checksums.digests(tmp_path) == {"x.jar": hashlib.sha256(b"content").hexdigest()}


def test_every_pom_is_pinned_for_both_architectures() -> None:
    sources = Path(checksums.__file__).parent
    pins = checksums.parse((sources / "checksums.txt").read_text(encoding="utf-8"))
    poms = {path.stem for path in (sources / "poms").glob("*.xml")} - {"postgres"}
    assert set(pins) == poms | {"postgres-amd64", "postgres-arm64"}


def test_connects_plugins_hold_nothing_twice() -> None:
    pins = checksums.parse((ROOT / "infra/toolchain/checksums.txt").read_text(encoding="utf-8"))["connect"]
    jars = [match.groups() for name in pins if (match := re.fullmatch(r"(.+?)-(\d[\w.]*)\.jar", name))]
    artifacts = [artifact for artifact, _ in jars]
    assert len(artifacts) == len(set(artifacts))
    # The archive of the connector brings all else of Debezium.
    assert [name for name in artifacts if name.startswith("debezium")] == ["debezium-openlineage-core"]
    # Jackson's YAML parser fails beside a core of another release.
    assert len({version for artifact, version in jars if artifact.startswith("jackson")}) == 1
