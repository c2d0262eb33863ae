"""Keep the datasets of all roles up to date until SIGTERM: `python -m pipelines.publish`.

Without a contract that shows somebody something it does nothing, and has no Spark.
"""

import os
import signal
import sys
from threading import Event
from types import FrameType

from pyiceberg.exceptions import RESTError
from pyspark.errors import PySparkException
from requests.exceptions import RequestException
from structlog.stdlib import BoundLogger

from pipelines.errors import JavaCallFailed, PipelineError, one_line
from pipelines.log import json_log
from pipelines.protection.columns import keys_for
from pipelines.protection.functions import Vault
from pipelines.publish.dataset import Dataset
from pipelines.publish.refresh import Refresher
from pipelines.publish.settings import PublishSettings
from pipelines.publish.withdraw import open_catalog, withdraw
from pipelines.spark.leaks import Leaks, freeze_modules
from pipelines.spark.session import leave, start_session
from quality import odcs
from quality.errors import ContractError


def main() -> int:
    """Run until SIGTERM or SIGINT; return the exit code."""
    log, stop = json_log(), Event()

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    settings = PublishSettings()
    try:
        contracts = odcs.load(settings.contracts)
        keys = keys_for(contracts.values(), settings.protection_key)
    except ContractError as error:
        log.error("bad_spec", error=str(error))
        return 1
    os.environ.pop("PROTECTION_KEY", None)
    datasets = [Dataset(settings.source_name, c, audience) for c in contracts.values() for audience in c.audiences]
    refresher = leaks = None
    if datasets:
        spark = start_session(settings, f"publish {settings.source_name}", ui=False)
        spark.sparkContext.setLogLevel("WARN")
        leaks = Leaks(spark._jvm, log)
        refresher = Refresher(spark, settings.published, None if keys is None else Vault.of(spark, keys))
        freeze_modules()
    else:
        log.info("nothing_to_publish")
    alive, trouble = settings.state_dir / "alive", dict[str, str]()
    pause, withdrawn = 0.0, False
    while not stop.wait(pause):
        pause = settings.publish_seconds
        alive.touch()
        withdrawn = withdrawn or _withdraw(settings, datasets, log)
        for dataset in datasets:
            if refresher is None or stop.is_set():
                break
            alive.touch()
            _refresh(refresher, dataset, trouble, log)
        if leaks is not None:
            leaks.clear()
    if refresher is not None:
        refresher.spark.stop()
    leave(0)


def _refresh(refresher: Refresher, dataset: Dataset, trouble: dict[str, str], log: BoundLogger) -> None:
    """Bring a dataset up to date, or say why not, unless ``trouble`` has it that this was said."""
    name = ".".join(dataset.name)
    try:
        done = refresher.refresh(dataset)
        trouble.pop(name, None)
    except (PipelineError, PySparkException, JavaCallFailed) as error:
        reason = str(error) if isinstance(error, PipelineError) else one_line(error)
        if trouble.get(name) != reason:
            log.error("not_published", dataset=name, why=reason)
        trouble[name] = reason
        return
    if done is not None:
        log.info("published", dataset=name, of=done.snapshot, anew=done.anew, ms=round(done.seconds * 1000))


def _withdraw(settings: PublishSettings, datasets: list[Dataset], log: BoundLogger) -> bool:
    """Withdraw what isn't shown any more; return whether everything is gone."""
    try:
        for name in withdraw(open_catalog(settings), settings.source_name, datasets):
            log.info("withdrawn", dataset=name)
    except (RESTError, RequestException) as error:
        log.error("not_withdrawn", why=type(error).__name__)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
