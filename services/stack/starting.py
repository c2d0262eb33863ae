"""Have the runner start services of the stack, as `make up` does."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from services.stack.errors import StackError


def start(checkout: Path, services: Sequence[str]) -> None:
    """Start services of a checkout with what they need, and return once they are healthy. Raises StackError."""
    command = [sys.executable, "-m", "services.runner", "up", *services]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise StackError(f"{', '.join(services)} didn't start: {' '.join(last)}. Mend that, and run the same again.")
