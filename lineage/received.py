"""Received: what an OpenLineage event must have to be kept. Facets are taken as they are: there are more than we know.

From the published schema of RunEvent, JobEvent and DatasetEvent (OpenLineage 2-0-2).
"""

import hashlib
import json
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AnyUrl, AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from lineage.errors import NotAnEvent
from lineage.known_facets import usable
from lineage.redact import redacted
from lineage.storable import storable

Facets = dict[str, dict[str, Any] | None]
DatasetFacets = Annotated[Facets, AfterValidator(usable)]
# Runs of jobs that are only described, by a JobEvent, are made of the job's name in this namespace.
_DESCRIBED = uuid.UUID("6c7f2c2e-7d1b-5d0f-8f38-0d6a3a1c9b52")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")


class Dataset(_Part):
    """A dataset, with what is said of it (``facets``) and of this use (``inputFacets`` or ``outputFacets``)."""

    namespace: str = Field(min_length=1)
    name: str = Field(min_length=1)
    facets: DatasetFacets = {}
    input_facets: DatasetFacets = Field(default={}, alias="inputFacets")
    output_facets: DatasetFacets = Field(default={}, alias="outputFacets")

    @property
    def every_facet(self) -> Facets:
        """All of them."""
        return {**self.facets, **self.input_facets, **self.output_facets}


class Job(_Part):
    """A job."""

    namespace: str = Field(min_length=1)
    name: str = Field(min_length=1)
    facets: Facets = {}


class Run(_Part):
    """A run of a job."""

    run_id: uuid.UUID = Field(alias="runId")
    facets: Facets = {}


class _Event(_Part):
    event_time: AwareDatetime = Field(alias="eventTime")
    producer: AnyUrl
    schema_url: AnyUrl = Field(alias="schemaURL")


class RunEvent(_Event):
    """Something happened to a run."""

    event_type: Literal["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"] = Field(
        default="OTHER", alias="eventType"
    )
    run: Run
    job: Job
    inputs: list[Dataset] = []
    outputs: list[Dataset] = []


class JobEvent(_Event):
    """A job is described, without a run of it."""

    job: Job
    inputs: list[Dataset] = []
    outputs: list[Dataset] = []

    @property
    def run(self) -> Run:
        """A run that stands for the description."""
        identifier = uuid.uuid5(_DESCRIBED, f"{self.job.namespace}\n{self.job.name}")
        return Run(runId=identifier)


class DatasetEvent(_Event):
    """A dataset is described, without a job."""

    dataset: Dataset


Event = RunEvent | JobEvent | DatasetEvent


class Received:
    """An event as it came, without secrets.

    ``digest``: the same for the same event. ``replaced``: the places whose value PostgreSQL can't hold as it came.
    """

    def __init__(self, body: Mapping[str, Any]) -> None:
        """Raise NotAnEvent, which says what of ``body`` isn't as it must be."""
        kept, self.replaced = storable(dict(body))
        self.body: dict[str, Any] = redacted(kept)
        try:
            self.event: Event = _KINDS[_kind(self.body)].validate_python(self.body)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(str(at) for at in e['loc'])}: {e['msg']}" for e in error.errors()[:5])
            raise NotAnEvent(f"not an OpenLineage event: {wrong}") from None
        text = json.dumps(self.body, sort_keys=True, ensure_ascii=False)
        self.digest = hashlib.sha256(text.encode()).digest()

    @property
    def at(self) -> datetime:
        """When it happened."""
        return self.event.event_time


_KINDS: dict[str, TypeAdapter[Any]] = {
    "run": TypeAdapter(RunEvent), "job": TypeAdapter(JobEvent), "dataset": TypeAdapter(DatasetEvent),
}  # fmt: skip


def _kind(body: Mapping[str, Any]) -> str:
    if "dataset" in body:
        return "dataset"
    return "job" if "job" in body and "run" not in body else "run"
