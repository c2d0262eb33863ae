"""Cache the JVM's classes, looked up once.

PySpark names a class of the JVM in every call of a function, and each time the JVM looks for it anew, in every package
that it might be in and all of Spark's jars. With the hundreds of expressions that a batch is made of, that was a sixth
of what a small batch costs.
"""

from typing import Any

from py4j.java_gateway import JavaClass, JavaPackage

NAMES = (
    "com", "functions", "java", "org", "org.apache.spark.sql.avro.functions", "org.apache.spark.sql.Observation",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.functions", "org.apache.spark.storage.StorageLevel", "org.apache.spark.util.Utils", "py4j",
    "PythonRDD", "PythonSQLUtils", "PythonUtils", "SerDeUtil", "SimplePythonFunction", "scala",
)  # fmt: skip


def cache_classes(jvm: Any) -> None:
    """Have ``jvm``, a view of py4j's, keep the classes that PySpark and the pipelines name, and their methods."""
    for name in NAMES:
        setattr(jvm, name, _CachedLookup(getattr(jvm, name)))


class _CachedLookup:
    """A class or package of py4j's, which keeps what was asked of it: neither has anything that changes."""

    def __init__(self, found: JavaClass | JavaPackage) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._found, name)
        if isinstance(value, JavaClass | JavaPackage):
            value = _CachedLookup(value)
        setattr(self, name, value)
        return value

    def __call__(self, *arguments: Any) -> Any:
        return self._found(*arguments)
