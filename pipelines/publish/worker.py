"""Bring all datasets up to date, and go on while they change: `python -m pipelines.publish.worker`.

The service runs it while something is due: Spark is only there that long.
"""

import os
import signal
import sys
import time
from threading import Event
from types import FrameType

from pyspark.errors import PySparkException
from structlog.stdlib import BoundLogger

from pipelines.errors import JavaCallFailed, PipelineError, one_line
from pipelines.log import json_log
from pipelines.protection.crypto import keys_for
from pipelines.protection.functions import Vault
from pipelines.publish.dataset import Dataset
from pipelines.publish.refresh import Refresher
from pipelines.publish.settings import PublishSettings
from pipelines.spark.leaks import Leaks, freeze_modules
from pipelines.spark.session import leave, start_session
from pipelines.specs.load import SpecError, load_specs
from quality import odcs
from quality.errors import ContractError

LINGER_SECONDS = 120.0
"""Without a change, until Spark isn't kept any longer: a start takes more than a few looks."""
NOT_ALL = 3
"""The exit code when some datasets couldn't be brought up to date; the log says why."""


def main() -> int:
    """Publish until nothing changes any more, or SIGTERM; return the exit code."""
    log, stop, service = json_log(), Event(), os.getppid()

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    settings = PublishSettings()
    try:
        specs, contracts = load_specs(settings.specs), odcs.load(settings.contracts)
        keys = keys_for(contracts.values(), settings.protection_key)
    except (SpecError, ContractError) as error:
        log.error("bad_spec", error=str(error))
        return 1
    os.environ.pop("PROTECTION_KEY", None)
    datasets = Dataset.of(specs, settings.source_name, contracts.values())
    spark = start_session(settings, f"publish {settings.source_name}", ui=False)
    spark.sparkContext.setLogLevel("WARN")
    leaks = Leaks(spark._jvm, log)
    refresher = Refresher(spark, settings.published, None if keys is None else Vault.of(spark, keys))
    freeze_modules()
    alive, trouble = settings.state_dir / "alive", dict[str, str]()
    pause, changed = 0.0, time.monotonic()
    # Without the service nobody would end it.
    while not stop.wait(pause) and os.getppid() == service and time.monotonic() - changed < LINGER_SECONDS:
        pause = settings.publish_seconds
        for dataset in datasets:
            if stop.is_set():
                break
            alive.touch()
            if _refresh(refresher, dataset, trouble, log):
                changed = time.monotonic()
        leaks.clear()
    spark.stop()
    leave(NOT_ALL if trouble else 0)


def _refresh(refresher: Refresher, dataset: Dataset, trouble: dict[str, str], log: BoundLogger) -> bool:
    """Bring a dataset up to date, or say why not, unless ``trouble`` has it that this was said; whether it wasn't."""
    name = ".".join(dataset.name)
    try:
        done = refresher.refresh(dataset)
        trouble.pop(name, None)
    except (PipelineError, PySparkException, JavaCallFailed) as error:
        said = str(error) if isinstance(error, PipelineError) else one_line(error)
        if trouble.get(name) != said:
            log.error("not_published", dataset=name, why=said)
        trouble[name] = said
        return False
    if done is not None:
        log.info("published", dataset=name, of=done.snapshot, anew=done.anew, ms=round(done.seconds * 1000))
    return done is not None


if __name__ == "__main__":
    sys.exit(main())
