"""Run a statement so that its one commit carries a summary."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from pipelines.spark.session import configured

SNAPSHOT_PROPERTY = "spark.sql.iceberg.snapshot-property."


NO_SETTINGS: Mapping[str, str] = {}


def commit(
    session: SparkSession,
    statement: str,
    summary: Mapping[str, str],
    settings: Mapping[str, str] = NO_SETTINGS,
    parameters: Mapping[str, Any] | None = None,
) -> None:
    """Run ``statement`` with its named ``parameters`` so that its one commit carries ``summary``.

    The session's ``settings`` are changed meanwhile. The session must serve one statement at a time.
    """
    with configured(session, commit_settings(summary, settings)):
        session.sql(statement, dict(parameters) if parameters else None)


def commit_settings(summary: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return session settings with which a commit carries ``summary``."""
    return {**{SNAPSHOT_PROPERTY + key: value for key, value in summary.items()}, **settings}
