"""The log of our processes: structured lines, one JSON object each, on standard output."""

import structlog
from structlog.stdlib import BoundLogger


def json_log() -> BoundLogger:
    """Set the process's logging up, and return its log: level, time in UTC, and exceptions as text."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ]
    )
    log: BoundLogger = structlog.get_logger()
    return log
