"""`python3 -m infra.toolchain`: runs on the standard library alone, before anything is installed."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence

from . import environment, installer, maven, preflight
from .components import COMPONENTS, DEFAULT, LATER, RUNNER
from .errors import ToolchainError
from .installer import Then
from .layout import Layout


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return 0, 1 (something could not be installed) or 2 (usage or this machine)."""
    parser = argparse.ArgumentParser(prog="python3 -m infra.toolchain", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    install = commands.add_parser("install", help="install what is missing or out of date")
    install.add_argument("components", nargs="*", metavar="COMPONENT", help=", ".join(COMPONENTS))
    install.add_argument("--then", nargs=argparse.REMAINDER, metavar="COMMAND", default=[],
                         help="run this as soon as what starts the stack is there, with INSTALLING=1")  # fmt: skip
    later = commands.add_parser("later", help="install in the background, gently, what nothing waits for")
    later.add_argument("--wait", action="store_true", help="return when it is done")
    check = commands.add_parser("preflight", help="check that this machine can run the stack")
    check.add_argument("--runner", choices=("auto", *preflight.RUNNERS), default="auto")
    runner = commands.add_parser("runner", help="print the runner that this machine would use")
    runner.add_argument("--runner", choices=("auto", *preflight.RUNNERS), default="auto")
    commands.add_parser("env", help="write .env, or add to it what is missing")
    commands.add_parser("pin", help="rewrite the checksums of what Maven fetches (after changing a version)")
    chosen = parser.parse_args(arguments)
    layout = Layout.of_this_checkout()
    try:
        return _run(layout, chosen)
    except ToolchainError as error:
        print(installer.explain(error), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ntoolchain: broken off; run the same command again to go on", file=sys.stderr)
        return 130


def _run(layout: Layout, chosen: argparse.Namespace) -> int:
    match chosen.command:
        case "install":
            return _install(layout, chosen.components or list(DEFAULT), chosen.then)
        case "later":
            return _later(layout, chosen.wait)
        case "preflight":
            return preflight.report(layout, preflight.choose(chosen.runner), sys.stdout)
        case "env":
            return _env(layout)
        case "runner":
            print(preflight.choose(chosen.runner))
        case "pin":
            print(f"toolchain: wrote {maven.pin(layout)}")
    return 0


def _install(layout: Layout, names: list[str], command: Sequence[str]) -> int:
    since, started = time.monotonic(), list[subprocess.Popen[bytes]]()

    def start() -> None:
        started.append(subprocess.Popen(command, env={**os.environ, "INSTALLING": "1"}))

    try:
        failures = installer.install(layout, names, then=Then(RUNNER, start) if command else None)
    finally:
        codes = [process.wait() for process in started]
    for failure in failures:
        print(installer.explain(failure.error, failure.name), file=sys.stderr)
    if failures:
        return 1
    if not command:
        print(f"toolchain: complete ({time.monotonic() - since:.1f} s)")
    return next(iter(codes), 0)


def _later(layout: Layout, wait: bool) -> int:
    names = list(installer.outdated(layout, LATER))
    if not wait and names:
        # It outlives whoever started it, and says what it has to say in its log.
        subprocess.Popen(
            [sys.executable, "-m", "infra.toolchain", "later", "--wait"],
            cwd=layout.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return 0
    for name in names:
        installer.install_later(layout, name)
    return 0


def _env(layout: Layout) -> int:
    fresh = not layout.env_file.exists()
    added = environment.write(layout.env_file)
    if fresh:
        print(f"env: wrote {layout.env_file} with generated secrets")
    elif added:
        print(f"env: added to {layout.env_file}: {', '.join(added)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
