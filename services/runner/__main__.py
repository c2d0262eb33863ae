"""`python -m services.runner`: what the Makefile's `up`, `down`, `clean`, `status`, `logs` and `kill` call."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from infra.toolchain.layout import Layout
from services.runner import capture, choose, held, report, verifier
from services.runner.checkout import Checkout
from services.runner.compose import ComposeRunner
from services.runner.errors import RunnerError
from services.runner.installing import BeingInstalled
from services.runner.process import ProcessRunner
from services.runner.protocol import Runner
from services.stack.console import out as console

if TYPE_CHECKING:
    from services.capture.status import CaptureReport

app = typer.Typer(
    help=__doc__ + "\n\nExit codes: 0 ok, 1 something is not as it should be, 2 usage or environment.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
Folder = Annotated[Path | None, typer.Option("--directory", hidden=True, help="The checkout; by default, this one.")]
ServiceName = Annotated[str, typer.Argument(metavar="SERVICE")]
KINDS = {"compose": "containers", "process": "processes on this machine"}
CLEAN = """Stop the stack and delete its data, logs and run files (compose: its containers and volumes).

Settings, secrets and what is installed stay: .env and .lakehouse/toolchain. The next `make up` begins with empty
databases that get the same passwords. With --all those go too, and nothing is left but the checkout.
"""


@contextmanager
def _explained() -> Iterator[None]:
    """Turn errors that tell what to do into messages and exit codes."""
    try:
        yield
    except RunnerError as error:
        print(f"error: {error.explain()}", file=sys.stderr)
        raise typer.Exit(error.exit_code) from error


def _checkout(directory: Path | None) -> Checkout:
    found = Checkout(directory.resolve()) if directory else Checkout.this()
    if found.observe_file.exists():
        # As at the `make up` that began it: another environment would start servers anew.
        os.environ.setdefault("OBSERVE", "1")
    return found


def _runner(checkout: Checkout, name: str) -> Runner:
    if name == "compose":
        return ComposeRunner(checkout, console)
    # Said by `python3 -m infra.toolchain install --then …`.
    installing = BeingInstalled(Layout.of_this_checkout()) if os.environ.get("INSTALLING") else None
    return ProcessRunner(checkout, console, installing=installing)


def _current(checkout: Checkout) -> Runner:
    """Return the runner that holds the stack, whatever RUNNER says; else the one it would be."""
    return _runner(checkout, choose.remembered(checkout.runner_file) or _chosen(checkout))


def _chosen(checkout: Checkout) -> str:
    try:
        return choose.choose(os.environ.get("RUNNER"), checkout.runner_file)
    except ValueError as error:
        raise RunnerError(str(error), "make up") from error


def _take_over(checkout: Checkout) -> Runner:
    """Return the runner to start the stack with; raises `RunnerError` while another one runs it."""
    name, before = _chosen(checkout), choose.remembered(checkout.runner_file)
    if before is not None and before != name and _runner(checkout, before).is_running():
        raise RunnerError(
            f"the stack runs as {KINDS[before]}, not as {KINDS[name]}", f"make down, then make up RUNNER={name}"
        )
    return _runner(checkout, name)


@app.command()
def up(
    services: Annotated[list[str] | None, typer.Argument(metavar="[SERVICE]...", help="With what they need.")] = None,
    profiles: Annotated[str, typer.Option(envvar="PROFILES", help="Optional parts, separated by commas.")] = "",
    directory: Folder = None,
) -> None:
    """Start the stack, or some services with what they need, and wait until all are healthy."""
    with _explained():
        checkout = _checkout(directory)
        with checkout.exclusive("up"):
            began = time.monotonic()
            chosen = profiles.replace(",", " ").split()
            if "observe" in chosen:
                checkout.run.mkdir(parents=True, exist_ok=True)
                checkout.observe_file.touch()
                os.environ["OBSERVE"] = "1"
            runner = _take_over(checkout)
            console.print(f"Starting the stack as {KINDS[runner.name]} (RUNNER={runner.name}).")
            choose.remember(checkout.runner_file, runner.name)
            names = runner.up(services or [], chosen)
            found = [it for it in runner.status().services if it.name in names]
    _print_up(found, time.monotonic() - began)


def _print_up(found: list[report.ServiceReport], seconds: float) -> None:
    console.print(Text.assemble("\n", ("Up", "green"), f" after {seconds:.1f} s: {len(found)} services."))
    for service in found:
        if service.ports:
            console.print(f"  {service.name:<18} " + "  ".join(f"127.0.0.1:{port}" for port in service.ports))
    console.print("\nNext: make demo · make status · make logs s=mirror · make verify · make down")
    console.print("Endpoints with credentials: .lakehouse/toolchain/venv/bin/lakehouse env")


@app.command()
def down(directory: Folder = None) -> None:
    """Stop the stack. Its state stays; `up` resumes from it."""
    with _explained():
        checkout = _checkout(directory)
        with checkout.exclusive("down"):
            runner = _current(checkout)
            if not runner.is_running():
                console.print("The stack is down already.")
                return
            runner.down()
            checkout.observe_file.unlink(missing_ok=True)
    console.print("The stack is down. Its state stays: make up resumes from it, make clean deletes it.")


@app.command(help=CLEAN)
def clean(
    yes: Annotated[bool, typer.Option("--yes", envvar="YES", help="Don't ask.")] = False,
    everything: Annotated[bool, typer.Option("--all", envvar="ALL", help="Also .env and the toolchain.")] = False,
    directory: Folder = None,
) -> None:
    """Stop the stack and delete its state."""
    with _explained():
        checkout = _checkout(directory)
        what = "ALL of the stack's data" + (", .env with its secrets, and everything installed" if everything else "")
        if not yes:
            if not sys.stdin.isatty():
                raise RunnerError(f"this deletes {what}, and nobody is there to ask", "make clean YES=1")
            typer.confirm(f"Stop the stack and delete {what}?", abort=True)
        with checkout.exclusive("clean"):
            _current(checkout).clean()
            for path in (checkout.data, checkout.logs, checkout.run, *([checkout.state] if everything else [])):
                if path.exists():
                    shutil.rmtree(path)
            if everything:
                checkout.env_file.unlink(missing_ok=True)
    console.print(f"Deleted {what}. make up begins anew.")


@app.command()
def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    directory: Folder = None,
) -> None:
    """Show health, ports, memory and uptime of every service. Exit code 1 if anything is not as it should be."""
    with _explained():
        runner = _current(_checkout(directory))
        stack = runner.status()
        # Only where there is one to ask about.
        running = {service.name for service in stack.services if service.state != "stopped"}
        captured = capture.look(runner) if "capture" in running else None
        mirrored = held.look(runner, "streams" in running) if "mirror" in running else None
        verified = verifier.look() if "verifier" in running else None
    if as_json:
        said = {
            "capture": capture.as_json(captured),
            "mirror": held.as_json(mirrored),
            "verifier": verifier.as_json(verified),
        }
        print(json.dumps(stack.model_dump(mode="json") | said, indent=2, ensure_ascii=False))
    elif not stack.running:
        console.print("The stack is down. Start it: make up")
    else:
        _print_status(stack, captured, mirrored, verified)
    healthy = capture.is_healthy(captured) and held.is_healthy(mirrored) and verifier.is_healthy(verified)
    raise typer.Exit(0 if stack.ok and healthy else 1)


def _print_status(
    stack: report.StackReport,
    captured: CaptureReport | str | None,
    mirrored: dict[str, str] | str | None,
    verified: verifier.Verified | str | None,
) -> None:
    console.print(report.table(stack))
    for line in report.details(stack):
        console.print(line)
    total = stack.memory_bytes / report.MIB
    console.print(f"\nmemory {total:,.0f} MiB in all ({stack.memory_kind}); runner {stack.runner}")
    if captured:
        console.print(capture.table(captured))
    if mirrored is not None:
        console.print(held.table(mirrored))
    if verified:
        console.print(verifier.table(verified))


@app.command()
def logs(
    service: Annotated[str | None, typer.Argument(metavar="[SERVICE]")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on, until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option(min=0, help="How many of the last lines.")] = 100,
    directory: Folder = None,
) -> None:
    """Show the log of a service, or of all."""
    with _explained():
        raise typer.Exit(_current(_checkout(directory)).logs(service, follow, lines))


@app.command()
def kill(
    service: ServiceName,
    wait: Annotated[bool, typer.Option(help="Wait until it is back and healthy.")] = True,
    directory: Folder = None,
) -> None:
    """End a service's processes with SIGKILL, as a crash would. Its supervisor brings it back."""
    with _explained():
        killed = _current(_checkout(directory)).kill(service, wait)
    console.print(f"{service}: killed process {killed.pid}")
    if killed.new_pid is not None:
        console.print(f"{service}: back as process {killed.new_pid} after {killed.seconds:.1f} s")


@app.command(hidden=True)
def run(
    service: ServiceName,
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...")],
    directory: Folder = None,
) -> None:
    """Run a command beside a running service, with its environment. The exit code is the command's."""
    with _explained():
        raise typer.Exit(_current(_checkout(directory)).run(service, command))


if __name__ == "__main__":
    app(prog_name="python -m services.runner")
