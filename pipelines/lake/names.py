"""Names of the platform's own namespace and tables in the lake, and of the namespaces of mirrored tables."""

NAMESPACE = "lakehouse"

DEAD_LETTERS, DEAD_LETTER_ACTIONS = "dead_letters", "dead_letter_actions"
RESYNCS = "resyncs"
MAINTENANCE, MAINTENANCE_REQUESTS = "maintenance", "maintenance_requests"
CHECK_RUNS, CHECKS, CHECK_REQUESTS = "check_runs", "checks", "check_requests"
VERIFICATION, AUDIT = "verification", "audit"

CHECK_TABLES = (CHECK_RUNS, CHECKS, CHECK_REQUESTS)


def lake_namespace(source: str, schema: str) -> str:
    """Return the lake namespace of a source schema: ``<source>`` for ``public``, else ``<source>_<schema>``."""
    return source if schema == "public" else f"{source}_{schema}"
