"""Errors that say what is to be done: stop and tell a person, or try the batch again.

What is wrong with one record is not an error of the pipeline: it becomes a dead letter.
"""

from contextlib import suppress
from typing import ClassVar

from py4j.protocol import Py4JError, Py4JJavaError

# What a call into the JVM raises: whatever Java raised, and anything else that keeps it from answering.
JavaRaised, JavaCallFailed = Py4JJavaError, Py4JError


class PipelineError(Exception):
    """The base of this package's errors."""


class StopPipeline(PipelineError):
    """Going on would lose or alter data; a person must act.

    The message ends with what to do next. One that is about a single table holds that table (see
    pipelines.progress.holds); any other ends the process. ``may_pass``: it may be mended at any moment.
    """

    may_pass: ClassVar[bool] = False


class NotPublished(StopPipeline):
    """A table's contract lets nobody see what is in it. It is mended in the source's rows, which may be any moment."""

    may_pass = True


class Stopping(PipelineError):
    """The process was asked to stop, and doesn't begin another batch. It is no failure."""


class RetryBatch(PipelineError):
    """A server did not answer or a commit lost a race; the same batch may be tried again as it is."""


class UnknownSchema(PipelineError):
    """The registry answers, and has no schema of this id."""


class AwaitsInput(StopPipeline):
    """The lake hasn't got a table yet that another one is made of. It goes on once it has."""

    may_pass = True


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message: of what Spark and Java say, the one that tells what is wrong."""
    return f"{error}".strip().splitlines()[0]


def one_line(error: BaseException) -> str:
    """Return what to tell of an error that nobody foresaw, in one line.

    That is its class and the first line of its message; of an error that came from the JVM those of its cause.
    """
    text = f"{type(error).__name__}: {error}".strip()
    if isinstance(error, Py4JJavaError):
        # Unless the JVM is gone, and can't be asked.
        with suppress(Py4JError):
            text = _cause(error)
    return text.splitlines()[0]


def is_unknown_commit(error: BaseException) -> bool:
    """Return whether an error says that a commit may have been done or not. The table's ledger tells which."""
    found: BaseException | None = error
    while found is not None:
        if "CommitStateUnknown" in f"{type(found).__name__}: {found}":
            return True
        found = found.__cause__
    return False


def _cause(error: Py4JJavaError) -> str:
    java = error.java_exception
    while java.getCause() is not None:
        java = java.getCause()
    return f"{java.getClass().getSimpleName()}: {java.getMessage()}"
