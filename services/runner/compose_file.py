"""Reads docker-compose.yml into frozen models: only what running processes needs, in the words of the file.

What Compose reads and we do not use (images, volumes, memory limits) is passed over; what we use and can't understand
is an error, so that the two runners never silently differ.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from dotenv import dotenv_values
from dotenv.variables import Variable, parse_variables
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from services.runner.errors import ComposeFileError

Condition = Literal["service_healthy", "service_completed_successfully", "service_started"]
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")


def seconds(text: object) -> float:
    """Return the seconds of a Compose duration such as `1m30s` or `500ms`; raises `ValueError`."""
    match = _DURATION.fullmatch(str(text))
    if match is None or not match.group():
        raise ValueError(f"{text} is no duration such as 2s, 500ms or 1m30s")
    hours, minutes, whole, thousandths = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + whole + thousandths / 1000


Seconds = Annotated[float, BeforeValidator(seconds)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)


class Health(_Model):
    """A health check. Defaults are Compose's. Durations in seconds."""

    test: tuple[str, ...]
    interval: Seconds = 30.0
    timeout: Seconds = 30.0
    retries: int = Field(default=3, ge=1)
    start_period: Seconds = 0.0
    start_interval: Seconds = 5.0

    @field_validator("test")
    @classmethod
    def _command(cls, test: tuple[str, ...]) -> tuple[str, ...]:
        if len(test) < 2 or test[0] not in ("CMD", "CMD-SHELL"):
            raise ValueError("write it as [CMD, program, argument…] or [CMD-SHELL, line]")
        return test

    @property
    def command(self) -> tuple[str, ...]:
        """The program and its arguments."""
        return self.test[1:] if self.test[0] == "CMD" else ("/bin/sh", "-c", self.test[1])

    @property
    def patience(self) -> float:
        """Seconds after its start until a service that is never healthy counts as failed."""
        return self.start_period + self.retries * self.interval


class Dependency(_Model):
    """What must hold for another service before this one starts."""

    condition: Condition


class ProcessSettings(BaseModel):
    """`x-process`: what differs in the process runner.

    ``reads``: folders of the checkout that are part of the service's definition, as they are of its image.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    skip: bool = False
    environment: Mapping[str, str] = Field(default_factory=dict, repr=False)
    reads: tuple[str, ...] = ()


class Build(_Model):
    """What a service's image is built from: a target of the Dockerfile."""

    target: str = ""


class Service(_Model):
    """One service. `environment` may hold secrets, so it is left out of its text form."""

    name: str
    command: tuple[str, ...] = Field(min_length=1)
    environment: Mapping[str, str] = Field(default_factory=dict, repr=False)
    depends_on: Mapping[str, Dependency] = Field(default_factory=dict)
    healthcheck: Health | None = None
    restart: str = Field(default="no", pattern=r"^(no|always|unless-stopped|on-failure(:\d+)?)$")
    profiles: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    build: Build = Build()
    stop_signal: str = Field(default="SIGTERM", pattern=r"^SIG[A-Z0-9]+$")
    stop_grace_period: Seconds = 10.0
    process: ProcessSettings = Field(default_factory=ProcessSettings, alias="x-process")

    @property
    def image_target(self) -> str:
        """The target of the Dockerfile that its image is built from; empty where the file doesn't say."""
        return self.build.target

    @property
    def keeps_running(self) -> bool:
        """False for a one-shot: a service that does its work and ends."""
        return self.restart in ("always", "unless-stopped")

    @property
    def attempts(self) -> int:
        """How often a one-shot is started at most."""
        policy, _, times = self.restart.partition(":")
        return 1 + (int(times or 5) if policy == "on-failure" else 0)

    @property
    def host_ports(self) -> tuple[int, ...]:
        """The ports that it has on the machine: of `127.0.0.1:9092:9092`, the middle one."""
        return tuple(int(port.split(":")[-2]) for port in self.ports)


class Stack(_Model):
    """All services of the file, by name; their dependencies exist and form no circle."""

    name: str = "lakehouse"
    services: Mapping[str, Service]

    @model_validator(mode="after")
    def _dependencies_exist(self) -> Stack:
        for service in self.services.values():
            for name in service.depends_on:
                if name not in self.services:
                    raise ValueError(f"{service.name} depends on {name}, which is no service")
        return self

    def dependencies(self, name: str) -> dict[str, Condition]:
        """Return what a service waits for in the process runner: skipped services are nobody's dependency."""
        wanted = self.services[name].depends_on
        return {other: it.condition for other, it in wanted.items() if not self.services[other].process.skip}

    def selection(self, names: Iterable[str] = (), profiles: Iterable[str] = ()) -> list[str]:
        """Return the services to run: those named, else those of no or a chosen profile; and all that they need.

        Raises `ComposeFileError` for a name that is no service, or that has no part in the process runner, and for a
        profile that no service has.
        """
        chosen = set(profiles)
        self.check_profiles(chosen)
        wanted = list(names) or [
            name
            for name, service in self.services.items()
            if not service.process.skip and (not service.profiles or chosen & set(service.profiles))
        ]
        found: dict[str, None] = {}
        while wanted:
            name = wanted.pop()
            self.check_name(name)
            if self.services[name].process.skip:
                raise ComposeFileError(f"{name} has no part in the process runner", "use RUNNER=compose")
            if name not in found:
                found[name] = None
                wanted += self.dependencies(name)
        return [name for name in self.services if name in found]

    def check_profiles(self, profiles: Iterable[str]) -> None:
        """Raise `ComposeFileError` for a profile that no service has."""
        known = {profile for service in self.services.values() for profile in service.profiles}
        for profile in profiles:
            if profile not in known:
                raise ComposeFileError(f"there is no profile {profile!r}", f"choose from: {', '.join(sorted(known))}")

    def check_name(self, name: str) -> None:
        """Raise `ComposeFileError` if there is no such service."""
        if name not in self.services:
            raise ComposeFileError(f"there is no service {name}", f"choose from: {', '.join(self.services)}")


def settings(env_file: Path) -> dict[str, str]:
    """Return what `${…}` stands for: .env, and over it the environment, as Compose has it."""
    return {name: value for name, value in dotenv_values(env_file).items() if value is not None} | dict(os.environ)


def paths(usual: Path, values: Mapping[str, str]) -> list[Path]:
    """Return the files that describe the stack: the usual one, or those that COMPOSE_FILE names, as in Compose."""
    named = values.get("COMPOSE_FILE")
    return [usual.parent / name for name in named.split(":")] if named else [usual]


def read(files: Iterable[Path]) -> dict[str, Any]:
    """Return the files as they are written, `${…}` and all, each laid over those before; raises `ComposeFileError`."""
    whole: dict[str, Any] = {}
    for path in files:
        whole = _overlaid(whole, _read(path))
    return whole


def _overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge mappings, as Compose does.

    (It also adds up some lists, which no file of ours lays over others.)
    """
    both = {
        k: _overlaid(below[k], v) for k, v in above.items() if isinstance(v, dict) and isinstance(below.get(k), dict)
    }
    return {**below, **above, **both}


def _read(path: Path) -> dict[str, Any]:
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ComposeFileError(f"{path} can't be read: {error}") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("services"), dict):
        raise ComposeFileError(f"{path} has no services")
    return raw


def parse(raw: Mapping[str, Any], values: Mapping[str, str]) -> Stack:
    """Return the stack with `values` in the place of `${…}`; raises `ComposeFileError` that never shows a value.

    Only what the models hold is filled in, so a variable that only Compose needs may be missing here.
    """
    problems = list(_problems(raw, values))
    if problems:
        raise ComposeFileError("docker-compose.yml: " + "; ".join(problems), "run `make up`, or add them to .env")
    used = {field.alias or name for name, field in Service.model_fields.items()}
    services = {
        name: {"name": name, **{key: _filled(value, values) for key, value in service.items() if key in used}}
        for name, service in raw["services"].items()
    }
    try:
        return Stack.model_validate({"name": raw.get("name", "lakehouse"), "services": services})
    except ValidationError as error:
        # Not the error's own text: it quotes the input.
        where = [f"{'.'.join(map(str, it['loc']))}: {it['msg']}" for it in error.errors(include_input=False)]
        raise ComposeFileError("docker-compose.yml: " + "; ".join(where)) from error


def _problems(raw: Mapping[str, Any], values: Mapping[str, str]) -> Iterator[str]:
    used = {field.alias or name for name, field in Service.model_fields.items()}
    missing: dict[str, list[str]] = {}
    for name, service in raw["services"].items():
        for text in _texts({key: value for key, value in service.items() if key in used}):
            for atom in (atom for part in text.split("$$") for atom in parse_variables(part)):
                if isinstance(atom, Variable):
                    if atom.default is None and atom.name not in values:
                        missing.setdefault(atom.name, []).append(name)
                elif "$" in atom.resolve({}):
                    yield f"{name}: write ${{NAME}} or ${{NAME:-default}} for a variable, $$ for a dollar: {text}"
    for variable, services in missing.items():
        yield f"{variable} is not set (services {', '.join(dict.fromkeys(services))})"


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    """Return a copy with every text filled in; numbers and truth values become text only where they are environment."""
    if isinstance(value, str):
        return "$".join("".join(_resolved(part, values)) for part in value.split("$$"))
    if isinstance(value, Mapping):
        return {key: _filled(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    return value


def _resolved(text: str, values: Mapping[str, str]) -> Iterator[str]:
    for atom in parse_variables(text):
        # As in Compose, `:-` also stands in for an empty value.
        if isinstance(atom, Variable) and atom.default is not None and not values.get(atom.name):
            yield atom.default
        else:
            yield atom.resolve(values)
