"""`python -m services.faults`, which `make fault` calls: list the faults, switch one on or off."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.failpoints import FAILPOINTS, UnknownFailpoint
from services.cli.output import UNUSABLE, expected_errors, fail
from services.operations.faults.network import Network
from services.operations.faults.switch import Fault, Faults
from services.runner import choose
from services.runner.checkout import Checkout
from services.stack.console import Grid, out
from services.stack.settings import ServiceSettings

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class FaultSettings(ServiceSettings):
    """Where the proxies are switched; the same port as in infra/faults/proxies.yml."""

    on_host = {"faults_url": ("FAULTS_PORT", "http://127.0.0.1:{}")}

    faults_url: str = "http://127.0.0.1:8474"


@app.command()
def fault(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Without a name, all are listed.")] = "",
    off: Annotated[bool, typer.Option("--off", help="Switch it off.")] = False,
    action: Annotated[str, typer.Option(help="What a failpoint does, once: kill, error or pause.")] = "kill",
) -> None:
    """Switch a fault on or off in the running stack. Exit code 2 if there is none of this name."""
    with expected_errors():
        faults = Faults(_failpoints(), Network(FaultSettings.load().faults_url))
        try:
            if not name:
                _list(faults.every())
            elif off:
                faults.off(name)
                out.print(f"{name} is off. Is everything well? make status · make verify")
            else:
                faults.on(name, action)
                done = f"{name} is armed: {action}, once" if name in FAILPOINTS else f"{name} is on"
                out.print(f"{done}. Watch: make logs s=mirror. Off: make fault name={name} off=1")
        except UnknownFailpoint as error:
            fail(str(error), UNUSABLE)


def _failpoints() -> Path:
    checkout = Checkout.this()
    if choose.remembered(checkout.runner_file) == "compose":
        fail(
            "in containers, the mirror's failpoints are switched in the console, on the page Operations, as admin"
            " (make up PROFILES=observe). Faults of the network take the process runner: make down, then make proxies"
            " RUNNER=process",
            UNUSABLE,
        )
    return checkout.data / "mirror" / "failpoints"


def _list(found: list[Fault]) -> None:
    grid = Grid("fault", "where and what", "now")
    for each in found:
        grid.add_row(each.name, each.says, each.state)
    out.print(grid)
    out.print("On: make fault name=NAME (of a failpoint also action=kill|error|pause). Off: make fault name=NAME off=1")


if __name__ == "__main__":
    app(prog_name="python -m services.faults")
