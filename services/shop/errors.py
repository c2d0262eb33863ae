"""What PostgreSQL says of an error."""

import psycopg


def said(error: psycopg.Error) -> str:
    """Return the server's sentence; of a server that doesn't answer, all that its client found out, in one line."""
    return error.diag.message_primary or " ".join(str(error).split())
