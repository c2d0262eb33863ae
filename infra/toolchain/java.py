"""Java: which one this machine has."""

from __future__ import annotations

import os
import re
import subprocess


def version() -> int | None:
    """Return the feature version, 17 for `openjdk version "17.0.15"`; None without Java."""
    return feature(said())


def said() -> str:
    """Return what `java -version` prints, of the one that every script here runs; empty without Java."""
    home = os.environ.get("JAVA_HOME")
    try:
        answer = subprocess.run(
            [f"{home}/bin/java" if home else "java", "-version"], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return answer.stderr + answer.stdout


def feature(text: str) -> int | None:
    """Return the feature version in the output of `java -version`."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if match is None:
        return None
    return int(match[2]) if match[1] == "1" and match[2] else int(match[1])
