"""The jobs of one process: which tables the checker has it check."""

from dataclasses import dataclass

from pydantic import TypeAdapter


@dataclass(frozen=True)
class Job:
    """A table of the source (``schema.table``) to check.

    ``request``: whose it is; ``full``: every row of it, not only what is new.
    """

    table: str
    request: str | None = None
    full: bool = False


JOBS = TypeAdapter(list[Job])
