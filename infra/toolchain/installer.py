"""Installing: what is out of date, in the order that needs allow, side by side where parts are independent."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
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

SIDE_BY_SIDE = 8
"""What is fetched beside what is built; Maven fetches one thing at a time, whoever asks."""
NICENESS = 10
"""The priority of what is made in the background: a tenth of what a server gets that wants the same core."""
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


@dataclass(frozen=True)
class Then:
    """What is to be done as soon as some components are installed, while others still are being installed."""

    needs: Collection[str]
    start: Callable[[], None]


def install(
    layout: Layout,
    names: Iterable[str],
    components: Mapping[str, Component] = COMPONENTS,
    then: Then | None = None,
) -> list[Failure]:
    """Install what is out of date among the components named; return those that failed (the others are installed).

    Two runs at once don't meet: the second waits for the first. Nothing out of date means no network and no change.
    Raises `ToolchainError` rather than change a toolchain that is another checkout's.
    """
    chosen = wanted(names, components)
    if not outdated(layout, chosen, components):
        if then is not None:
            then.start()
        return []
    _own(layout)
    with _alone(layout):
        todo = outdated(layout, chosen, components)
        for folder in (layout.toolchain, layout.toolchain / "jars"):
            sweep(folder)
        with _reporter(layout, [components[name].title for name in todo]) as reporter:
            return _install_all(layout, todo, components, reporter, then)


def at_work(layout: Layout) -> bool:
    """Say whether somebody installs at this moment."""
    with _held(layout, wait=False) as free:
        return not free


def install_later(layout: Layout, name: str, components: Mapping[str, Component] = COMPONENTS) -> None:
    """Install a component that nothing waits for, at a low priority, beside everything else.

    Does nothing where it is up to date or being made, or where what it needs isn't installed. Raises `ToolchainError`.
    """
    if list(outdated(layout, wanted([name], components), components)) != [name]:
        return
    _own(layout)
    with _held(layout, name, wait=False) as mine:
        if not mine:
            return
        os.nice(NICENESS)
        stamps, component = Stamps(layout.toolchain / "stamps"), components[name]
        stamp, since = key(component.inputs(layout)), [stamps.written(need) for need in component.needs]
        stamps.clear(name)
        component.install(layout, _emptied(layout, name))
        # Unless what it was made from was installed anew meanwhile.
        if since == [stamps.written(need) for need in component.needs]:
            stamps.write(name, stamp)


def _own(layout: Layout) -> None:
    """Raise `ToolchainError` where the toolchain is another checkout's."""
    if not layout.toolchain.resolve().is_relative_to(layout.root.resolve()):
        raise ToolchainError(
            f"{layout.toolchain} is a link to {layout.toolchain.resolve()}, outside this checkout",
            "Install there, or remove the link to have a toolchain of this checkout's own.",
        )


def _emptied(layout: Layout, name: str) -> Path:
    log = layout.log(name)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("", encoding="utf-8")
    return log


def _install_all(
    layout: Layout,
    todo: Mapping[str, str],
    components: Mapping[str, Component],
    reporter: Reporter,
    then: Then | None,
) -> list[Failure]:
    stamps = Stamps(layout.toolchain / "stamps")
    waiting = list(todo)
    running: dict[Future[None], str] = {}
    failures: list[Failure] = []

    def one(name: str) -> None:
        log = _emptied(layout, name)
        reporter.started(name, components[name].title, log)
        complete = False
        try:
            # With what was made from it, which isn't installed any more if nobody asks for it now.
            for made in (name, *(other for other, component in components.items() if name in component.needs)):
                stamps.clear(made)
            # What is made in the background waits for nobody, but is made once at a time.
            with _held(layout, name) if components[name].later else nullcontext():
                components[name].install(layout, log)
                stamps.write(name, todo[name])
            complete = True
        finally:
            reporter.ended(name, failed=not complete)

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        while waiting or running:
            unmet = {*waiting, *running.values(), *(failure.name for failure in failures)}
            if then is not None and unmet.isdisjoint(then.needs):
                # From here on somebody else has the terminal.
                reporter.leave()
                then.start()
                then = None
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
        if then is not None and not failures:
            then.start()
    return failures


def explain(error: ToolchainError, component: str | None = None) -> str:
    """Return what a person needs to know about an error: the message, the end of the log, what to do.

    ``component``: the one that could not be installed for it.
    """
    lines = [f"toolchain: {'' if component is None else f'{component} could not be installed: '}{error}"]
    if isinstance(error, CommandFailed):
        lines += [f"  | {line}" for line in tail(error.log)]
        lines.append(f"  whole log: {error.log}")
    return "\n".join([*lines, f"  {error.advice}"])


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
    lock = (layout.root / "requirements.lock").read_text(encoding="utf-8")
    try:
        python.pip_install(layout, log, python.excerpt(lock, TERMINAL_PACKAGES))
    except ToolchainError:
        return False
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    sys.path.append(str(layout.venv / "lib" / version / "site-packages"))
    return True


@contextmanager
def _alone(layout: Layout) -> Iterator[None]:
    """Hold the toolchain's lock."""
    with _held(layout, wait=False) as at_once:
        if at_once:
            yield
            return
    print("toolchain: waiting for another installation to end …", flush=True)
    with _held(layout):
        yield


@contextmanager
def _held(layout: Layout, name: str = "", wait: bool = True) -> Iterator[bool]:
    """Hold a lock: the toolchain's, or that of one component. Gives whether it could be had; always, with ``wait``."""
    layout.toolchain.mkdir(parents=True, exist_ok=True)
    with (layout.toolchain / (f"lock-{name}" if name else "lock")).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
