"""Names of datasets and jobs, by OpenLineage's naming conventions, so that what others send meets what is here."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from openlineage.client.naming import dataset as conventions

NAMESPACE = "lakehouse"


@dataclass(frozen=True, order=True)
class Name:
    """A dataset's or a job's name, unique in its namespace."""

    namespace: str
    name: str


def postgres(host: str, port: int, database: str, schema: str, table: str) -> Name:
    """Return a table of PostgreSQL."""
    return _of(conventions.Postgres(host, str(port), database, schema, table))


def topic(bootstrap: str, name: str) -> Name:
    """Return a topic of the Kafka cluster with these bootstrap servers, which is known by the first of them."""
    host, _, port = bootstrap.split(",", maxsplit=1)[0].strip().rpartition(":")
    return _of(conventions.Kafka(host, port, name))


def location(uri: str) -> Name:
    """Return a table of the lake, by where it is: what Spark's listener calls it, whatever the catalog."""
    parts = urlsplit(uri)
    return Name(f"s3://{parts.netloc}", parts.path.strip("/"))


def catalogued(catalog_uri: str, namespace: str, table: str) -> Name:
    """Return a table of the lake by what its catalog calls it: a symlink to its location."""
    return Name(catalog_uri, f"{namespace}.{table}")


def job(*parts: str) -> Name:
    """Return a job of the lakehouse: what it does, and with what."""
    return Name(NAMESPACE, ".".join(parts))


def _of(named: conventions.DatasetNaming) -> Name:
    return Name(named.get_namespace(), named.get_name())
