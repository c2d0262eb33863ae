"""A PostgreSQL of the tests' own: the stack's start script on a free port and in a folder of its own."""

import os
import secrets
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from tests.integration.stack import CHECKOUT, free_ports


@dataclass(frozen=True)
class Server:
    port: int
    admin_password: str
    shop_password: str

    def dsn(self, database: str, user: str = "shop") -> str:
        password = self.shop_password if user == "shop" else self.admin_password
        return make_conninfo(host="127.0.0.1", port=self.port, dbname=database, user=user, password=password)

    def new_database(self, name: str) -> str:
        """An empty database of the shop's owner."""
        with psycopg.connect(self.dsn("postgres", "postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name)))
            connection.execute(sql.SQL("CREATE DATABASE {} OWNER shop").format(sql.Identifier(name)))
        return name


@contextmanager
def postgres_server(folder: Path) -> Iterator[Server]:
    server = Server(*free_ports(1), secrets.token_hex(8), secrets.token_hex(8))
    environment = os.environ | {
        "BIND_ADDRESS": "127.0.0.1",
        "PORT": str(server.port),
        "STATE_DIR": str(folder),
        "ADMIN_PASSWORD": server.admin_password,
        "SHOP_PASSWORD": server.shop_password,
        "MAX_SLOT_WAL_KEEP_SIZE": "1GB",
    }
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["infra/source-db/start"], cwd=CHECKOUT, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            Retrying(stop=stop_after_delay(60), wait=wait_fixed(0.1), retry=retry_if_result(lambda up: not up))(
                _is_up, server, process
            )
            yield server
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def _is_up(server: Server, process: "subprocess.Popen[bytes]") -> bool:
    assert process.poll() is None, "PostgreSQL ended"
    try:
        psycopg.connect(server.dsn("shop"), connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
