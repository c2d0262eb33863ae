"""`python -m tests.bench.writer`: a live load, in a process of its own that loads nothing else."""

import os
import time
from typing import Annotated

import typer

from tests.bench.workloads import WORKLOADS


def write(
    workload: str,
    rate: Annotated[float, typer.Option()],
    seconds: Annotated[float, typer.Option()],
    seed: Annotated[int, typer.Option()],
) -> None:
    """Write to the source of BENCH_DSN; prints how many rows were changed, and in how many seconds."""
    began = time.monotonic()
    changed = WORKLOADS[workload].live(os.environ["BENCH_DSN"], rate, seconds, seed)
    print(changed, time.monotonic() - began)


if __name__ == "__main__":
    typer.run(write)
