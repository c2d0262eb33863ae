"""Supervisor: its configuration rendered, the daemon started, and its programs driven over its socket."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import xmlrpc.client
from collections.abc import Iterable, Mapping
from typing import Any, cast

import psutil
from pydantic import BaseModel, ConfigDict
from supervisor.xmlrpc import Faults, SupervisorTransport
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from services.runner.checkout import Checkout, write_private
from services.runner.compose_file import Service
from services.runner.errors import RunnerError

_GONE = (ConnectionError, FileNotFoundError, http.client.HTTPException)


class Program(BaseModel):
    """What Supervisor says of a service. Times are seconds since 1970; `pid` is 0 while it does not run."""

    model_config = ConfigDict(frozen=True)

    name: str
    statename: str
    start: int
    stop: int
    now: int
    pid: int
    exitstatus: int
    spawnerr: str

    @property
    def active(self) -> bool:
        """It runs, or Supervisor is about to start it (again)."""
        return self.statename in ("STARTING", "RUNNING", "BACKOFF", "STOPPING")


def render(checkout: Checkout, services: Iterable[Service]) -> str:
    """Return Supervisor's configuration: a program a service, none of which starts by itself, and no secrets.

    Only the main process gets the stop signal, as in a container; what is left of its group after the grace period is
    killed. `%(here)s` is the folder of the configuration, so the text holds no path that would need quoting.
    """
    here = "%(here)s"
    socket = checkout.socket if checkout.socket.parent != checkout.run else f"{here}/supervisor.sock"
    user = f"user={psutil.Process().username()}" if os.geteuid() == 0 else ""
    parts = [
        f"[unix_http_server]\nfile={socket}\nchmod=0700\n",
        f"[supervisord]\nlogfile={here}/../logs/supervisord.log\nlogfile_maxbytes=10MB\nlogfile_backups=3\n"
        f"pidfile={here}/supervisord.pid\nchildlogdir={here}/../logs\ndirectory={here}/../..\nnocleanup=true\n{user}\n",
        "[rpcinterface:supervisor]\nsupervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface\n",
    ]
    for service in services:
        # A one-shot may end at once and is started again by the runner, within bounds; a server is brought back for
        # ever, each quick death delaying the next start by one second more.
        again = "startsecs=1\nstartretries=1000000\nautorestart=true" if service.keeps_running else "startsecs=0"
        parts.append(
            f"[program:{service.name}]\n"
            f"command=/bin/sh .lakehouse/run/services/{service.name}.sh\ndirectory={here}/../..\nautostart=false\n"
            f"{again if service.keeps_running else again + chr(10) + 'autorestart=false'}\n"
            f"stopsignal={service.stop_signal.removeprefix('SIG')}\nstopwaitsecs={round(service.stop_grace_period)}\n"
            "stopasgroup=false\nkillasgroup=true\nredirect_stderr=true\n"
            f"stdout_logfile={here}/../logs/{service.name}.log\nstdout_logfile_maxbytes=10MB\nstdout_logfile_backups=3\n"
        )
    return "\n".join(parts)


class Supervisor:
    """A checkout's Supervisor. Every call is its own connection, so threads may share an object."""

    def __init__(self, checkout: Checkout) -> None:
        self._checkout = checkout
        self._configuration = checkout.run / "supervisord.conf"

    def _call(self, method: str, *arguments: object) -> Any:
        transport = SupervisorTransport(serverurl=f"unix://{self._checkout.socket}")
        try:
            with xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport) as proxy:
                return getattr(proxy.supervisor, method)(*arguments)
        finally:
            transport.close()

    def alive(self) -> bool:
        """Say whether it answers."""
        try:
            return bool(self._call("getState")["statecode"] == 1)
        except _GONE:
            return False

    def ensure(self, services: Iterable[Service], environment: Mapping[str, str]) -> None:
        """Have it running with these services; one that is configured differently now is stopped.

        `environment` is what services inherit; it counts when the daemon starts. Raises `RunnerError`.
        """
        text = render(self._checkout, services)
        if self.alive():
            if not self._configuration.exists() or self._configuration.read_text(encoding="utf-8") != text:
                write_private(self._configuration, text)
                self._reload()
            return
        write_private(self._configuration, text)
        answer = subprocess.run(
            [sys.executable, "-m", "supervisor.supervisord", "-c", self._configuration],
            env=dict(environment),
            cwd=self._checkout.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        up = Retrying(
            stop=stop_after_delay(15),
            wait=wait_fixed(0.05),
            retry=retry_if_result(lambda it: not it),
            retry_error_callback=lambda _: False,
        )
        if answer.returncode != 0 or not up(self.alive):
            log = self._checkout.relative(self._checkout.logs / "supervisord.log")
            raise RunnerError(f"Supervisor did not start: {(answer.stderr or answer.stdout).strip()}", f"read {log}")

    def _reload(self) -> None:
        ((added, changed, removed),) = self._call("reloadConfig")
        for name in (*changed, *removed):
            self._call("stopProcessGroup", name)
            self._call("removeProcessGroup", name)
        for name in (*added, *changed):
            self._call("addProcessGroup", name)

    def programs(self) -> dict[str, Program]:
        """Return all services by name; nothing if the daemon does not run."""
        try:
            answers = cast("list[dict[str, object]]", self._call("getAllProcessInfo"))
        except _GONE:
            return {}
        return {program.name: program for program in map(Program.model_validate, answers)}

    def program(self, name: str) -> Program:
        """Return one service; raises `RunnerError` if the daemon has ended."""
        try:
            return Program.model_validate(self._call("getProcessInfo", name))
        except _GONE as error:
            raise RunnerError("Supervisor has ended", "make up") from error

    def start(self, name: str) -> None:
        """Have a service start; return at once. One that runs is left alone.

        Supervisor reports a start as failed when the process has ended badly before the call returns, which a short
        one may do. `program` tells what became of it either way.
        """
        self._forgiving("startProcess", name, False, Faults.ALREADY_STARTED, Faults.SPAWN_ERROR)

    def stop(self, name: str) -> None:
        """Stop a service and wait for its end (at most its grace period). One that does not run is left alone."""
        self._forgiving("stopProcess", name, True, Faults.NOT_RUNNING)

    def _forgiving(self, method: str, name: str, wait: bool, *harmless: int) -> None:
        try:
            self._call(method, name, wait)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode not in harmless:
                raise RunnerError(f"{name}: Supervisor says {fault.faultString}", f"make logs s={name}") from fault
        except _GONE as error:
            raise RunnerError("Supervisor has ended", "make up") from error

    def shutdown(self) -> None:
        """End the daemon, and all services with it; return when it is gone."""
        try:
            daemon = psutil.Process(self._call("getPID"))
            self._call("shutdown")
            daemon.wait(timeout=120)
        except (*_GONE, psutil.NoSuchProcess):
            return
        except psutil.TimeoutExpired as error:
            raise RunnerError(f"Supervisor (process {error.pid}) does not end", "make down") from error
