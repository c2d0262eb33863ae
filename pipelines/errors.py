"""Errors say what is to be done: stop and tell a person, or try the batch again. (What is wrong with one record is not
an error of the pipeline: it becomes a dead letter.)
"""


class PipelineError(Exception):
    """Base of this package's errors."""


class StopPipeline(PipelineError):
    """Going on would lose or alter data; a person must act: the message ends with what to do next. A table's own holds
    that table (see pipelines.holds); any other ends the process.
    """


class Stopping(PipelineError):
    """Not a failure: the process was asked to stop, and doesn't begin another batch."""


class RetryBatch(PipelineError):
    """A server did not answer or a commit lost a race; the same batch may be tried again as it is."""


class UnknownSchema(PipelineError):
    """The registry answers, and has no schema of this id."""
