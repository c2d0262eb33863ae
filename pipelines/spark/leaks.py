"""Clear two caches, in Avro and Arrow, that grow with every task (AVRO-4253, iceberg #13937).

Avro's fast reader caches what it has made for two schemas by which objects these are, and what it caches refers to
them, so that nothing of it is ever collected (AVRO-4253). Spark parses its schemas anew in every task. And Iceberg
makes an allocator of Arrow's for each file that it reads by columns, which stays in its parent's list, for none is ever
closed (apache/iceberg #13937). Of both there is nothing that is asked for again.

What Python refers to, the JVM keeps: plans, and a table's metadata with its whole history. py4j's objects and their
methods refer to each other, so they go with a full collection of Python's only, which may be hours away.
"""

import gc
from collections.abc import Callable
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from structlog.stdlib import BoundLogger

from pipelines.errors import one_line


def _readers(jvm: Any) -> JavaObject:
    return _field(jvm.org.apache.avro.generic.GenericData.get().getFastReaderBuilder(), "readerCache")


def _allocators(jvm: Any) -> JavaObject:
    return _field(jvm.org.apache.iceberg.arrow.ArrowAllocation.rootAllocator(), "childAllocators", inherited=True)


MAPS: dict[str, Callable[[Any], JavaObject]] = {"avro": _readers, "arrow": _allocators}


def freeze_modules() -> None:
    """Leave what Python has now out of its collections.

    With all modules each takes some eighty milliseconds; of what a batch leaves, less than one.
    """
    gc.collect()
    gc.freeze()


class Leaks:
    """The caches of a driver and its JVM, which with ``local[*]`` does the work as well.

    A library in which its map isn't found is named in the log, and left alone: most likely it is another version, which
    has no need of it.
    """

    def __init__(self, jvm: Any, log: BoundLogger) -> None:
        self._maps: dict[str, JavaObject] = {}
        for library, find in MAPS.items():
            try:
                self._maps[library] = find(jvm)
            # A class that isn't there is a package for py4j, which can't be called.
            except (Py4JError, TypeError) as error:
                log.warning("not_let_go", library=library, why=one_line(error))

    @property
    def sizes(self) -> dict[str, int]:
        """Library to how much it has cached."""
        return {library: int(cache.size()) for library, cache in self._maps.items()}

    def clear(self) -> None:
        """Clear the caches. What runs meanwhile has what it needs itself."""
        for cache in self._maps.values():
            # Java's own method: what py4j has of that name takes the entries out one by one, by Java's equality.
            JavaObject.__getattr__(cache, "clear")()
        gc.collect()


def _field(of: JavaObject, name: str, inherited: bool = False) -> JavaObject:
    of_class = of.getClass().getSuperclass() if inherited else of.getClass()
    field = of_class.getDeclaredField(name)
    field.setAccessible(True)
    return field.get(of)
