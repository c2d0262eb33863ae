"""Have tables of event streams begin anew with their topics, which were renewed: nobody else has the events."""

import uuid
from collections.abc import Mapping, Sequence

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from pipelines.lake.properties import TOPIC
from pipelines.ledger.entries import Ledger
from pipelines.ledger.renewed_topics import renewal
from pipelines.ledger.resyncs import ANEW
from services.operations.resync import requests
from services.operations.resync.errors import CannotResync, NotResynced
from services.stack.endpoints import StackSettings
from services.stack.lake import called, ledger_of, open_catalog, streams
from services.stack.offsets import KafkaOffsets, kafka
from services.stack.progress import OnProgress, Progress, silent


def renewed_streams(settings: StackSettings, names: Sequence[str] = ()) -> dict[str, str]:
    """Return the tables of event streams (all, or those named) whose topics were renewed, and how that shows.

    Raises CannotResync for a name that no stream has.
    """
    found = {".".join(table.name()[-2:]): table for table in streams(open_catalog(settings), settings)}
    unknown = set(names) - {each for name in found for each in called(name)}
    if unknown:
        raise CannotResync(f"no event stream is called {', '.join(sorted(unknown))}. Streams: {', '.join(found)}.")
    wanted = {name: table for name, table in found.items() if not names or called(name) & set(names)}
    return {name: why for name, table in wanted.items() if (why := _renewal(kafka(settings), table))}


def begin_anew(
    settings: StackSettings, renewed: Sequence[str], timeout: float, on_progress: OnProgress = silent
) -> None:
    """Have these tables begin with their topics as they are now, keeping the rows that they have.

    Returns once they have begun. Raises NotResynced after ``timeout`` seconds.
    """
    catalog, topics = open_catalog(settings), kafka(settings)
    tables = {name: catalog.load_table(tuple(name.split("."))) for name in renewed}
    mine = {name: str(table.properties[TOPIC]) for name, table in tables.items()}
    ids = {name: str(uuid.uuid4()) for name in tables}
    requests.write(catalog, ANEW, {mine[name]: (ids[name], topics.ends_by_partition(mine[name])) for name in tables})

    def begun() -> bool:
        done = [name for name in ids if requests.has_ended(_ledger(catalog, name), ids[name])]
        on_progress(Progress("streams", "tables begun anew", len(done), len(ids)))
        return len(done) == len(ids)

    try:
        Retrying(retry=retry_if_result(lambda it: not it), stop=stop_after_delay(timeout), wait=wait_fixed(1))(begun)
    except RetryError:
        raise NotResynced(
            f"not begun after {timeout:.0f} s. Does the service streams run (`make status`)? It goes on by itself once"
            " it does; `make logs s=streams`."
        ) from None


def _ledger(catalog: Catalog, name: str) -> Ledger:
    return ledger_of(catalog.load_table(tuple(name.split("."))))


def _renewal(topics: KafkaOffsets, table: Table) -> str | None:
    name = str(table.properties[TOPIC])
    found: Mapping[str, str] = topics.topic_ids([name])
    return renewal(ledger_of(table), found[name], topics.ends_by_partition(name)) if found else None
