"""`python -m tests.bench`."""

from tests.bench.runner import app

app(prog_name="python -m tests.bench")
