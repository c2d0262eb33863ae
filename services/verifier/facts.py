"""What is known of tables that differ: their dead letters, holds, re-reads and resyncs."""

from collections import Counter
from collections.abc import Iterable

from confluent_kafka import KafkaException
from pyiceberg.exceptions import RESTError
from requests.exceptions import RequestException

from pipelines.sources.base.database import SourceTopics
from pipelines.sources.base.errors import SourceError
from services.capture.connect import Connect
from services.operations.dead_letters.letters import POSITION, LetterFilter, Letters
from services.operations.resync import requests
from services.stack import lake
from services.stack.endpoints import StackSettings
from services.stack.errors import LakehouseError
from services.stack.offsets import kafka
from services.stack.records import Decoder
from services.stack.source import connect, topics_of
from services.verify.explanation import Explanation, Facts, explain, not_known

HEALED = "`lakehouse heal` or a signal has asked for it"


def explanations(settings: StackSettings, names: Iterable[str]) -> dict[str, tuple[Explanation, ...]]:
    """Return what explains that these tables (``schema.table``) differ; also that it isn't known.

    Nothing is asked where none is named.
    """
    wanted = tuple(names)
    try:
        return _explanations(settings, wanted) if wanted else {}
    except (LakehouseError, SourceError, KafkaException, RESTError, RequestException, OSError) as error:
        return dict.fromkeys(wanted, not_known(" ".join(str(error).split())[:200] or type(error).__name__))


def _explanations(settings: StackSettings, names: Iterable[str]) -> dict[str, tuple[Explanation, ...]]:
    wanted = {name: _topic(topics_of(settings), name) for name in names}
    catalog = lake.open_catalog(settings)
    held = kafka(settings).held()
    with connect(settings) as source:
        rereads = source.open_rereads()
    with Connect(settings.connect_url, timeout=5) as connector:
        read_again = connector.tables_read(settings.source_name)
    ledgers = {pinned.topic: pinned.state for table in lake.tables(catalog, settings) if (pinned := lake.pin(table))}
    resyncs = requests.under_way(catalog, ledgers)
    letters, decoder = Letters(catalog), Decoder(settings.schema_registry_url)
    found = {}
    for name, topic in wanted.items():
        mine = letters.find(LetterFilter(topic=topic), decoder, (*POSITION, "reason"))
        whys = [reread.why for reread in rereads if reread.table == name]
        facts = Facts(
            letters=Counter(letter["reason"] for letter in mine),
            held=held.get(topic),
            rereads=(*whys, *([HEALED] if name in read_again and not whys else [])),
            resync=topic in resyncs,
        )
        found[name] = explain(name, topic, facts)
    return found


def _topic(topics: SourceTopics, table: str) -> str:
    return topics.topic(*table.split(".", 1))
