"""Connecting to PostgreSQL."""

import psycopg
from psycopg.conninfo import make_conninfo

from pipelines.sources.base.database import SourceAddress


def connect(address: SourceAddress) -> psycopg.Connection:
    """Open a connection in autocommit. Raises psycopg.OperationalError."""
    conninfo = make_conninfo(
        host=address.host, port=address.port, dbname=address.database, user=address.user,
        password=address.password.get_secret_value(), application_name=address.application, connect_timeout=5,
    )  # fmt: skip
    return psycopg.connect(conninfo, autocommit=True)
