"""PostgreSQL's errors, as every source has them."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from pipelines.sources.base.errors import SourceError, SourceLocked, SourceUnavailable, SourceUnreadable

KIND = "PostgreSQL"


def said(error: psycopg.Error) -> str:
    """Return the server's sentence; of a server that doesn't answer, all that its client found out, in one line."""
    return error.diag.message_primary or " ".join(str(error).split())


@contextmanager
def translated() -> Iterator[None]:
    """Raise SourceError for an error of psycopg's.

    A lock that isn't had in time is among what may work later, as is a server that doesn't answer.
    """
    try:
        yield
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
        raise SourceLocked(KIND, said(error), str(error)) from error
    except psycopg.OperationalError as error:
        raise SourceUnavailable(KIND, said(error), str(error)) from error
    except (psycopg.ProgrammingError, psycopg.DataError) as error:
        raise SourceUnreadable(KIND, said(error), str(error)) from error
    except psycopg.Error as error:
        raise SourceError(KIND, said(error), str(error)) from error
