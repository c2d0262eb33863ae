"""uv, which installs Python packages: our own, pinned, and told what pip's configuration says of the network."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from .commands import run
from .folders import replacing
from .layout import Layout
from .python import locked_tool, pip_install

_ADVICE = (
    "uv could not install everything: check the network (proxies and mirrors belong into pip's configuration), "
    "then run the same command again: what is done is kept."
)
# pip's setting: uv's variable, and what uv has between several values, if it takes several.
_SETTINGS = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "no-index": ("UV_NO_INDEX", ""),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", ""),
    "proxy": ("ALL_PROXY", ""),
    "timeout": ("UV_HTTP_TIMEOUT", ""),
}


def folder(layout: Layout) -> Path:
    """Return where uv is installed."""
    return layout.toolchain / "uv"


def install(layout: Layout, log: Path) -> None:
    """Install uv with the environment's pip, made first if need be."""
    with replacing(folder(layout)) as fresh:
        pip_install(layout, log, locked_tool(layout, "uv"), "--no-compile", "--target", fresh)


def translated(listing: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return uv's variables for what `pip config list` prints, but for those that the environment sets itself.

    Lines are `section.name='value'`; those of the environment (`:env:`) come last, and count.
    """
    found: dict[str, str] = {}
    for line in listing.splitlines():
        setting, _, value = line.partition("=")
        name = setting.rpartition(".")[2]
        if name in _SETTINGS:
            variable, between = _SETTINGS[name]
            text = value.strip("'\"")
            found[variable] = between.join(text.replace("\\n", " ").split()) if between else text
    return {name: value for name, value in found.items() if value and name not in environment}


def pip(layout: Layout, log: Path, command: str, *arguments: str | Path) -> None:
    """Run `uv pip COMMAND` on the environment; raise `CommandFailed` if it can't.

    Everything is held against hashes, what is built from source and what builds it, too. Certificates are the
    machine's, as pip has them.
    """
    listing = subprocess.run(
        [layout.python, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    run(
        [folder(layout) / "bin" / "uv", "pip", command, "--python", layout.python, *arguments],
        log,
        attempts=2,
        advice=_ADVICE,
        environment={
            "UV_SYSTEM_CERTS": "1",
            "UV_NO_PROGRESS": "1",
            "UV_PYTHON_DOWNLOADS": "never",
            **translated(listing, os.environ),
        },
    )
