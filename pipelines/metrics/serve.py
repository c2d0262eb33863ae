"""Answer `/metrics`."""

from prometheus_client import start_http_server
from pydantic_settings import BaseSettings, SettingsConfigDict
from structlog.stdlib import BoundLogger

from pipelines.metrics.meter import Meter


class MetricsSettings(BaseSettings):
    """Where a process answers, from ``BIND_ADDRESS`` and ``METRICS_PORT``; without a port it doesn't."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore")

    bind_address: str = "127.0.0.1"
    metrics_port: int | None = None


def serve(meter: Meter, log: BoundLogger) -> None:
    """Answer `/metrics` from a thread of its own until the process ends. A port that is taken is logged, no more."""
    settings = MetricsSettings()
    if settings.metrics_port is None:
        return
    try:
        start_http_server(settings.metrics_port, settings.bind_address, meter.registry)
    except OSError as error:
        log.warning("no_metrics", port=settings.metrics_port, why=error.strerror or str(error))
