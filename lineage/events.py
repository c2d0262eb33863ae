"""Events: what happened to a run, as OpenLineage has it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState, set_producer
from openlineage.client.generated.base import InputDatasetFacet, JobFacet, OutputDatasetFacet, RunFacet
from openlineage.client.uuid import generate_static_uuid

from lineage.facets import Facets
from lineage.names import Name

# Who says it. A name of its own: a fork has another address than this.
PRODUCER = "urn:lakehouse:lineage"
START, RUNNING, COMPLETE, FAIL = RunState.START, RunState.RUNNING, RunState.COMPLETE, RunState.FAIL


@dataclass(frozen=True)
class Read:
    """A dataset that a run reads."""

    name: Name
    facets: Facets = field(default_factory=dict)
    of_this: dict[str, InputDatasetFacet] = field(default_factory=dict)


@dataclass(frozen=True)
class Written:
    """A dataset that a run writes."""

    name: Name
    facets: Facets = field(default_factory=dict)
    of_this: dict[str, OutputDatasetFacet] = field(default_factory=dict)


def run_id(began: datetime, *identity: str) -> str:
    """Return the run that began then and is known by this: the same whoever asks, and however often."""
    return str(generate_static_uuid(began, "\n".join(identity).encode()))


def event(
    kind: RunState, at: datetime, run: str, job: Name, inputs: Iterable[Read] = (), outputs: Iterable[Written] = (),
    run_facets: dict[str, RunFacet] | None = None, job_facets: dict[str, JobFacet] | None = None,
) -> RunEvent:  # fmt: skip
    """Return one event."""
    return RunEvent(
        eventTime=at.isoformat(timespec="milliseconds"), producer=PRODUCER, eventType=kind,
        run=Run(run, facets=run_facets or {}), job=Job(job.namespace, job.name, facets=job_facets or {}),
        inputs=[InputDataset(i.name.namespace, i.name.name, facets=dict(i.facets), inputFacets=i.of_this)
                for i in inputs],
        outputs=[OutputDataset(o.name.namespace, o.name.name, facets=dict(o.facets), outputFacets=o.of_this)
                 for o in outputs],
    )  # fmt: skip


# Facets name who says them, too.
set_producer(PRODUCER)
