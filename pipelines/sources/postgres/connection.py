"""Connecting to PostgreSQL."""

import psycopg
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from pipelines.sources.base.database import SourceAddress

# What the database has set for everybody (ALTER DATABASE … SET) and would end our work, or change what it means.
_OWN = {
    "statement_timeout": "0", "lock_timeout": "0", "idle_in_transaction_session_timeout": "0",
    "default_transaction_isolation": "read\\ committed", "default_transaction_read_only": "off",
    # The driver reads times in no other style.
    "datestyle": "ISO", "intervalstyle": "postgres", "timezone": "UTC", "bytea_output": "hex",
    "extra_float_digits": "1",
}  # fmt: skip
_OPTIONS = " ".join(f"-c {name}={value}" for name, value in _OWN.items())


def connect(address: SourceAddress) -> psycopg.Connection:
    """Open a connection in autocommit, whose limits are its own. Raises psycopg.OperationalError."""
    return psycopg.connect(_conninfo(address, address.user, address.password, options=_OPTIONS), autocommit=True)


def try_logins(address: SourceAddress, user: str, password: SecretStr) -> None:
    """Log in as one who reads tables does, and as one who reads the log does. Raises psycopg.OperationalError.

    Each may be refused alone: a role's CONNECTION LIMIT doesn't count readers of the log, `max_wal_senders` only them.
    """
    for more in ({}, {"replication": "database"}):
        psycopg.connect(_conninfo(address, user, password, **more), autocommit=True).close()


def _conninfo(address: SourceAddress, user: str, password: SecretStr, **more: str) -> str:
    return make_conninfo(
        host=address.host, port=address.port, dbname=address.database, user=user, password=password.get_secret_value(),
        application_name=address.application, connect_timeout=5, **more,
    )  # fmt: skip
