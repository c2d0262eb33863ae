"""Installing: what is out of date, in the order that needs allow, side by side where parts are independent."""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import python
from .commands import tail
from .components import COMPONENTS, Component
from .errors import CommandFailed, ToolchainError, UnknownComponent
from .folders import sweep
from .layout import Layout
from .progress import LiveReporter, PlainReporter, Reporter
from .stamps import Stamps, key

SIDE_BY_SIDE = 4
TERMINAL_PACKAGES = ("rich", "markdown-it-py", "mdurl", "pygments")


@dataclass(frozen=True)
class Failure:
    """A component that could not be installed, and why."""

    name: str
    error: ToolchainError


def wanted(names: Iterable[str], components: Mapping[str, Component] = COMPONENTS) -> list[str]:
    """Return the components named and all they need, each after its needs; raises `UnknownComponent`."""
    ordered: list[str] = []

    def add(name: str) -> None:
        if name not in components:
            raise UnknownComponent(f"there is no component {name!r}", f"Choose from: {', '.join(components)}.")
        for need in components[name].needs:
            add(need)
        if name not in ordered:
            ordered.append(name)

    for name in names:
        add(name)
    return ordered


def outdated(layout: Layout, names: Iterable[str], components: Mapping[str, Component] = COMPONENTS) -> dict[str, str]:
    """Return the components that are missing or made of other inputs, with the stamp each shall get.

    So is one that is made from one of these. ``names``: what a component needs comes before it.
    """
    stamps = Stamps(layout.toolchain / "stamps")
    found: dict[str, str] = {}
    for name in names:
        component = components[name]
        stamp = key(component.inputs(layout))
        if not found.keys().isdisjoint(component.needs) or not stamps.current(name, stamp, component.target(layout)):
            found[name] = stamp
    return found


def install(layout: Layout, names: Iterable[str], components: Mapping[str, Component] = COMPONENTS) -> list[Failure]:
    """Install what is out of date among the components named; return those that failed (the others are installed).

    Two runs at once don't meet: the second waits for the first. Nothing out of date means no network and no change.
    Raises `ToolchainError` rather than change a toolchain that is another checkout's.
    """
    chosen = wanted(names, components)
    if not outdated(layout, chosen, components):
        return []
    if not layout.toolchain.resolve().is_relative_to(layout.root.resolve()):
        raise ToolchainError(
            f"{layout.toolchain} is a link to {layout.toolchain.resolve()}, outside this checkout",
            "Install there, or remove the link to have a toolchain of this checkout's own.",
        )
    with _alone(layout):
        todo = outdated(layout, chosen, components)
        for folder in (layout.toolchain, layout.toolchain / "jars"):
            sweep(folder)
        with _reporter(layout, [components[name].title for name in todo]) as reporter:
            return _install_all(layout, todo, components, reporter)


def _install_all(
    layout: Layout, todo: Mapping[str, str], components: Mapping[str, Component], reporter: Reporter
) -> list[Failure]:
    stamps = Stamps(layout.toolchain / "stamps")
    waiting = list(todo)
    running: dict[Future[None], str] = {}
    failures: list[Failure] = []

    def one(name: str) -> None:
        log = layout.log(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("", encoding="utf-8")
        reporter.started(name, components[name].title, log)
        complete = False
        try:
            # With what was made from it, which isn't installed any more if nobody asks for it now.
            for made in (name, *(other for other, component in components.items() if name in component.needs)):
                stamps.clear(made)
            components[name].install(layout, log)
            stamps.write(name, todo[name])
            complete = True
        finally:
            reporter.ended(name, failed=not complete)

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        while waiting or running:
            unmet = {*waiting, *running.values(), *(failure.name for failure in failures)}
            for name in [name for name in waiting if unmet.isdisjoint(components[name].needs)]:
                waiting.remove(name)
                running[pool.submit(one, name)] = name
            if not running:  # what is left needs something that failed
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(future)
                try:
                    future.result()
                except ToolchainError as error:
                    failures.append(Failure(name, error))
    return failures


def explain(failure: Failure) -> str:
    """Return what a person needs to know about a failure: the message, the end of the log, what to do."""
    lines = [f"toolchain: {failure.name} could not be installed: {failure.error}"]
    if isinstance(failure.error, CommandFailed):
        lines += [f"  | {line}" for line in tail(failure.error.log)]
        lines.append(f"  whole log: {failure.error.log}")
    return "\n".join([*lines, f"  {failure.error.advice}"])


def _reporter(layout: Layout, titles: list[str]) -> Reporter:
    return LiveReporter(titles) if sys.stdout.isatty() and _rich(layout) else PlainReporter(sys.stdout)


def _rich(layout: Layout) -> bool:
    """Make Rich importable, from the environment that is installed anyway; on failure plain lines do."""
    try:
        import rich  # noqa: F401  # is it there?
    except ImportError:
        pass
    else:
        return True
    print("toolchain: preparing the Python environment …", flush=True)
    log = layout.log("python")
    part = layout.toolchain / "terminal.lock"
    try:
        python.environment(layout, log)
        part.write_text(
            python.excerpt((layout.root / "requirements.lock").read_text(encoding="utf-8"), TERMINAL_PACKAGES),
            encoding="utf-8",
        )
        python.pip_install(layout, log, "--require-hashes", "--no-deps", "-r", part)
    except ToolchainError:
        return False
    finally:
        part.unlink(missing_ok=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    sys.path.append(str(layout.venv / "lib" / version / "site-packages"))
    return True


@contextmanager
def _alone(layout: Layout) -> Iterator[None]:
    """Hold the toolchain's lock."""
    layout.toolchain.mkdir(parents=True, exist_ok=True)
    with Path(layout.toolchain / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("toolchain: waiting for another installation to end …", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
