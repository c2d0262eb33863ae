"""`python -m services.producers`: have people click, applications log, and a factory measure."""

import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated

import typer
from confluent_kafka import KafkaException, Producer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from httpx import HTTPError

from pipelines.errors import RetryBatch
from pipelines.kafka.client import client_config, create_topic
from pipelines.log import json_log
from pipelines.metrics.meter import Meter
from pipelines.metrics.serve import serve
from services.producers.display import print_summary, sending
from services.producers.send import Progress, Summary
from services.producers.send import run as run_streams
from services.producers.settings import ProducerSettings
from services.producers.streams import TOPICS, streams
from services.stack.errors import LakehouseError
from services.stack.stopping import Stop

app = typer.Typer(help=__doc__, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)

PARTITIONS = 3

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document at the end, and nothing else.")]
Seed = Annotated[int, typer.Option(help="The same seed makes the same events, at whatever time.")]


@app.command()
def run(
    names: Annotated[list[str] | None, typer.Argument(metavar="[STREAM]…", help=", ".join(TOPICS))] = None,
    rate: Annotated[float, typer.Option(min=0.01, help="Events a second, of each stream.")] = 20.0,
    duration: Annotated[float | None, typer.Option(min=0.1, help="Seconds; endless if not given.")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Send events of all streams, or of those named. SIGTERM and SIGINT end it with its summary."""
    unknown = [name for name in names or () if name not in TOPICS]
    if unknown:
        _fail(f"{unknown[0]} is no stream; there are {', '.join(TOPICS)}")
    with _errors() as settings:
        summary = _run(settings, dict.fromkeys(names or TOPICS, rate), duration, seed, as_json)
    print_summary(summary, as_json)


@app.command()
def start(
    seed: Annotated[int | None, typer.Option(help="As for run; another one each time if not given.")] = None,
) -> None:
    """Send events of all streams without an end, at CLICKS_RATE, LOGS_RATE and READINGS_RATE."""
    # By the same one, a service that is started anew would send what it has sent before.
    seed = secrets.randbelow(1 << 31) if seed is None else seed
    with _errors() as settings:
        rates = {"clicks": settings.clicks_rate, "logs": settings.logs_rate, "readings": settings.readings_rate}
        meter = Meter("producers")
        serve(meter, json_log())
        summary = _run(settings, rates, None, seed, quiet=False, meter=meter)
    print_summary(summary, as_json=False)


def _run(
    settings: ProducerSettings, rates: Mapping[str, float], duration: float | None, seed: int, quiet: bool,
    meter: Meter | None = None,
) -> Summary:  # fmt: skip
    stop = Stop()
    stop.on_signals()
    producer = Producer({**client_config(settings.kafka_bootstrap), "linger.ms": 20, "compression.type": "zstd"})
    found = streams(settings, rates, seed)
    for stream in found.values():
        create_topic(settings.kafka_bootstrap, stream.topic, {}, PARTITIONS)
    sent = 0
    with sending(quiet) as on_progress:

        def told(progress: Progress) -> None:
            nonlocal sent
            if meter is not None:
                meter.add("lakehouse_produced_events_total", progress.sent - sent)
            sent = progress.sent
            on_progress(progress)

        return run_streams(producer, found, duration, seed, told, stop.event)


@contextmanager
def _errors() -> Iterator[ProducerSettings]:
    """Turn what can be expected to go wrong into one line and exit code 2."""
    try:
        settings = ProducerSettings.load()
        yield settings
    except LakehouseError as error:
        _fail(str(error))
    except (SchemaRegistryError, HTTPError) as error:
        _fail(f"the schema registry at {settings.schema_registry_url} doesn't take a schema: {error}")
    except (KafkaException, RetryBatch) as error:
        _fail(f"the broker at {settings.kafka_bootstrap} doesn't take events: {error}; see `make status`")


def _fail(message: str) -> None:
    typer.echo(message, err=True)
    sys.exit(2)


if __name__ == "__main__":
    app()
