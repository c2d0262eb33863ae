"""The page of the reference that lists all metrics: `make reference` writes it."""

from pipelines.metrics.declared import Declared, declared

PAGE = "docs/reference/metrics.md"
HEAD = (
    "# Metrics\n"
    "`make reference` writes this page from [metrics.yaml](../../pipelines/metrics/metrics.yaml); a test holds it to"
    " what is served. [Watch it](../guides/watch.md) says how to see them.\n\n"
    "Every process of ours answers `/metrics` on a port of its own ([Ports](ports.md)). The label `table` is"
    " `namespace.table` of the lake, and `job`, which Prometheus adds, is the service. Kafka, Connect with Debezium,"
    " the catalog, the schema registry, the object store and both PostgreSQL servers tell theirs as well, under the"
    " names of their exporters: `kafka_…`, `connect_…`, `debezium_…`, `jvm_…`, `http_…`, `minio_…`, `pg_…`.\n\n"
    "| metric | type, unit | labels | of | what it is |\n|---|---|---|---|---|\n"
)


def document() -> str:
    """Return the whole page."""
    return HEAD + "".join(_row(name, each) for name, each in declared().items())


def _row(name: str, each: Declared) -> str:
    labels = ", ".join(f"`{label}`" for label in each.labels)
    meaning = " ".join(each.meaning.split()).replace("|", "\\|")
    return f"| `{name}` | {each.type}, {each.unit} | {labels} | {', '.join(each.served_by)} | {meaning} |\n"
