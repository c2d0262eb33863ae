"""A service's environment on one machine without containers: every service is on 127.0.0.1, its state in a folder."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

LOOPBACK = "127.0.0.1"
NO_PROXY = ("NO_PROXY", "no_proxy")
INHERITED = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "JAVA_TOOL_OPTIONS"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"),
)
"""All that a service gets to see of the environment of `make up`."""


def on_loopback(raw: Mapping[str, Any], data: Path) -> dict[str, Any]:
    """Return a compose file (as written, before `${…}` is filled in) as it is without containers.

    In environment values, `<service>:<port>` becomes `127.0.0.1:<port>`, and a service's name alone in a variable that
    ends in HOST becomes 127.0.0.1; so does `BIND_ADDRESS`; `STATE_DIR` becomes the service's folder below `data`; then
    `x-process.environment` has its say. Only what is written in the file is changed, never what comes out of .env: a
    source called `shop`, or a password, is not a host.
    """
    changed = copy.deepcopy(dict(raw))
    names = list(changed["services"])
    for name, service in changed["services"].items():
        environment = service.get("environment")
        if not isinstance(environment, dict):
            continue
        for variable, value in environment.items():
            environment[variable] = _value(variable, value, names)
        if "STATE_DIR" in environment:
            environment["STATE_DIR"] = str(data / name)
        if "BIND_ADDRESS" in environment:
            environment["BIND_ADDRESS"] = LOOPBACK
        environment.update(service.get("x-process", {}).get("environment", {}))
    return changed


def _value(variable: str, value: object, names: Collection[str]) -> str:
    text = _text(value)
    if variable.endswith("HOST") and text in names:
        return LOOPBACK
    any_name = "|".join(re.escape(name) for name in names)
    return re.sub(rf"(?<![\w.${{-])(?:{any_name})(?=:(?:\d|\$\{{))", LOOPBACK, text)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def inherited(environment: Mapping[str, str], toolchain: Path) -> dict[str, str]:
    """Return what services inherit: `INHERITED`, with the toolchain first on PATH and loopback past any proxy."""
    kept = {name: environment[name] for name in INHERITED if name in environment}
    kept["PATH"] = os.pathsep.join([str(toolchain / "venv" / "bin"), kept.get("PATH", os.defpath)])
    # Clients read either; a company's machine may have set one.
    said = [host.strip() for name in NO_PROXY for host in environment.get(name, "").split(",") if host.strip()]
    return kept | dict.fromkeys(NO_PROXY, ",".join(dict.fromkeys([*said, LOOPBACK, "localhost"])))
