"""Published: the datasets that roles are shown, of which snapshot of which table each of their commits is."""

import json
from collections.abc import Iterator
from itertools import takewhile

from openlineage.client.event_v2 import RunEvent
from openlineage.client.generated.column_lineage_dataset import Transformation
from pyiceberg.table import Table

from lineage import facets
from lineage.events import COMPLETE, START, Read, Written, event, run_id
from lineage.facets import IDENTITY
from lineage.names import Name, job
from pipelines.lake.properties import PUBLISHED_OF, PUBLISHED_PROTECTED, PUBLISHED_ROLE, PUBLISHED_SNAPSHOT
from services.lineage.follow.world import SPARK, State, World, committed_at
from services.stack.lake import lineage
from services.stack.published_datasets import all_datasets


class Published:
    """Tells of each time that a dataset was brought up to date."""

    name = "published"

    def look(self, world: World, state: State) -> Iterator[tuple[list[RunEvent], State]]:
        """See Reader. State: the dataset's identity to the newest of its snapshots that is told."""
        told = dict(state)
        for dataset in _datasets(world):
            identity = str(dataset.metadata.table_uuid)
            events = list(_events(world, dataset, told.get(identity)))
            newest = dataset.current_snapshot()
            if events and newest is not None:
                told = {**told, identity: newest.snapshot_id}
                yield events, told


def _datasets(world: World) -> Iterator[Table]:
    beside = {table.name()[-2] for table in world.beside}
    return all_datasets(world.catalog, beside | {table.name.partition(".")[0] for table in world.mirrored})


def _events(world: World, dataset: Table, known: object) -> Iterator[RunEvent]:
    properties = dataset.properties
    source = _source(world, properties[PUBLISHED_OF])
    if source is None:
        return
    name = ".".join(dataset.name()[-2:])
    does = job("publish", name)
    namespace, short = dataset.name()[-2:]
    called, about = world.lake_table(namespace, short, dataset.location())
    kind = facets.job_type(
        False, SPARK, f"Keeps what {properties[PUBLISHED_ROLE]} is shown of {properties[PUBLISHED_OF]}."
    )
    done = json.loads(properties.get(PUBLISHED_PROTECTED, "{}"))
    news = list(takewhile(lambda snapshot: snapshot.snapshot_id != known, lineage(dataset)))
    for snapshot in reversed(news):
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        if PUBLISHED_SNAPSHOT not in summary:
            continue
        columns = {field.name: (field.name, _how(done.get(field.name))) for field in dataset.schema().fields}
        made = {
            **about, **facets.schema((f.name, str(f.field_type), f.doc) for f in dataset.schema().fields),
            **facets.version(str(snapshot.snapshot_id)), **facets.column_lineage(source, columns),
        }  # fmt: skip
        at = committed_at(snapshot)
        said = (run_id(at, "publish", str(snapshot.snapshot_id)), does,
                [Read(source, facets.version(summary[PUBLISHED_SNAPSHOT]))],
                [Written(called, made, facets.written(int(summary.get("added-records", 0))))],
                world.engine, kind)  # fmt: skip
        for what in (START, COMPLETE):
            yield event(what, at, *said)


def _source(world: World, of: str) -> Name | None:
    """Return what the lineage calls the table that a dataset is of."""
    mirrored = world.of_name(of)
    if mirrored is not None:
        return mirrored.lake()[0]
    return next((world.located(table)[0] for table in world.beside if ".".join(table.name()[-2:]) == of), None)


def _how(protection: str | None) -> Transformation:
    return IDENTITY if protection is None else facets.masked(protection)
