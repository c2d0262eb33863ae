"""Names of the platform's own namespace and tables in the lake, and of the namespaces of mirrored tables."""

from pipelines.specs.load import Specs

NAMESPACE = "lakehouse"

DEAD_LETTERS, DEAD_LETTER_ACTIONS = "dead_letters", "dead_letter_actions"
RESYNCS = "resyncs"
MAINTENANCE, MAINTENANCE_REQUESTS = "maintenance", "maintenance_requests"
CHECK_RUNS, CHECKS, CHECK_REQUESTS = "check_runs", "checks", "check_requests"
VERIFICATION, AUDIT = "verification", "audit"

CHECK_TABLES = (CHECK_RUNS, CHECKS, CHECK_REQUESTS)


def lake_table(specs: Specs, source: str, table: tuple[str, str]) -> tuple[str, str]:
    """Return namespace and name of the table that a contract is of.

    Event streams and derived tables are called by themselves, others by the source's schema and table.
    """
    schema, name = table
    called = f"{schema}.{name}"
    own = called in specs.streams or called in specs.derived
    return table if own else (lake_namespace(source, schema), name)


def lake_namespace(source: str, schema: str) -> str:
    """Return the lake namespace of a source schema: ``<source>`` for ``public``, else ``<source>_<schema>``."""
    return source if schema == "public" else f"{source}_{schema}"
