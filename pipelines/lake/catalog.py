"""The catalog that the Spark session already has: look tables up, and create them."""

import json
from threading import Lock
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from pipelines.lake.properties import TABLE_PROPERTIES
from pipelines.lake.table import LakeTable, strings
from pipelines.spark.session import CATALOG

_NAMESPACES = Lock()


class Lake:
    """The catalog named ``lake`` of a Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self.jvm: Any = spark._jvm
        self._spark = spark._jsparkSession
        self._catalog_object: Any = None

    def table(self, namespace: str, name: str) -> LakeTable | None:
        """Return the table, or None if it doesn't exist."""
        try:
            return LakeTable(self.jvm, namespace, name, self.catalog.loadTable(self.identifier(namespace, name)))
        except Py4JJavaError as error:
            if error.java_exception.getClass().getSimpleName() in ("NoSuchTableException", "NoSuchNamespaceException"):
                return None
            raise

    def create(self, namespace: str, name: str, schema: dict[str, Any], properties: dict[str, str]) -> LakeTable:
        """Create a table of format v2 with merge-on-read; ``schema`` in Iceberg's JSON form."""
        self._ensure_namespace(namespace)
        java_schema = self.jvm.org.apache.iceberg.SchemaParser.fromJson(json.dumps(schema))
        builder = self.catalog.buildTable(self.identifier(namespace, name), java_schema)
        for key, value in {**TABLE_PROPERTIES, **properties}.items():
            builder = builder.withProperty(key, value)
        return LakeTable(self.jvm, namespace, name, builder.create())

    def schema_of(self, frame: DataFrame) -> dict[str, Any]:
        """Return the schema of a table for the rows of ``frame``, in Iceberg's JSON form; any column may be null."""
        converted = self.jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(frame._jdf.schema())
        schema: dict[str, Any] = json.loads(self.jvm.org.apache.iceberg.SchemaParser.toJson(converted))
        return {**schema, "fields": [{**field, "required": False} for field in schema["fields"]]}

    @property
    def catalog(self) -> Any:
        """Iceberg's own Catalog."""
        if self._catalog_object is None:
            # Spark finds a catalog's settings through the session that is active in the calling thread.
            SparkSession._get_j_spark_session_class(self.jvm).setActiveSession(self._spark)
            spark3 = self.jvm.org.apache.iceberg.spark.Spark3Util
            self._catalog_object = spark3.loadIcebergCatalog(self._spark, CATALOG)
        return self._catalog_object

    def identifier(self, namespace: str, name: str) -> Any:
        """Return Iceberg's TableIdentifier."""
        space = self.jvm.org.apache.iceberg.catalog.Namespace.of(strings(self.jvm, namespace))
        return self.jvm.org.apache.iceberg.catalog.TableIdentifier.of(space, name)

    def _ensure_namespace(self, namespace: str) -> None:
        space = self.jvm.org.apache.iceberg.catalog.Namespace.of(strings(self.jvm, namespace))
        # The catalog answers two creations at once with an error that doesn't say so.
        with _NAMESPACES:
            if not self.catalog.namespaceExists(space):
                self.catalog.createNamespace(space)


def optional_columns(**columns: str) -> dict[str, Any]:
    """Return the schema, as :meth:`Lake.create` takes it, of columns (name to type) that may all be null."""
    fields = [
        {"id": number, "name": name, "required": False, "type": kind}
        for number, (name, kind) in enumerate(columns.items(), 1)
    ]
    return {"type": "struct", "schema-id": 0, "fields": fields}
