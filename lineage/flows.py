"""Flows: what is up and down the stream of a dataset, a job or a column, in the shapes of Marquez' read API.

Names of nodes are Marquez': ``dataset:NAMESPACE:NAME``, ``job:NAMESPACE:NAME``, ``datasetField:NAMESPACE:NAME:FIELD``.
Namespaces and names may hold colons themselves: what is known decides. Unlike Marquez, what a graph shows of a node is
what is up and down its stream, not everything that has something in common with it, and it can be asked as of a moment.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from lineage.answers import Answers, NotKnown
from lineage.graph import Field, Graph
from lineage.names import Name
from lineage.shapes import Json, dataset_of, field_id, fields_of, input_of
from lineage.store import Rows


@dataclass(frozen=True)
class Flows:
    """What can be asked. Raises NotKnown, and psycopg's errors."""

    answers: Answers

    def lineage(self, node: str, depth: int, at: datetime | None = None) -> Json:
        """Return what is up and down the stream of a dataset or job, within so many jobs, as it was at a moment."""
        graph = Graph.at(self.answers.store, at)
        kind, _, rest = node.partition(":")
        if kind == "job":
            root = _split(rest, graph.jobs)
            if root is None:
                raise NotKnown(f"{_then(at)}no job {rest} is known that reads or writes anything")
            datasets, jobs = graph.around([root], depth, jobs=True), {root}
        else:
            name = self.answers.named(rest)
            if name is None or kind != "dataset":
                raise NotKnown(f"{node} is neither a dataset nor a job that any event has told of")
            datasets, jobs = graph.around([name], depth), set()
        jobs |= {name for name, job in graph.jobs.items() if _within(job.inputs, job.outputs, datasets)}
        return {"graph": [*self._dataset_nodes(graph, datasets, jobs), *self._job_nodes(graph, jobs, datasets)]}

    def column_lineage(self, node: str, depth: int, downstream: bool, at: datetime | None = None) -> Json:
        """Return the lineage of a column, or of each that a dataset has."""
        graph = Graph.at(self.answers.store, at)
        kind, _, rest = node.partition(":")
        if kind == "dataset":
            name = self.answers.named(rest)
            roots = graph.fields(name) if name else set()
        else:
            dataset, _, column = rest.rpartition(":")
            name = self.answers.named(dataset)
            roots = {Field(name, column)} & graph.fields(name) if name else set()
        if name is None:
            raise NotKnown(f"{node} is no dataset or column that any event has told of")
        if not roots and kind != "dataset":
            raise NotKnown(f"{_then(at)}no event has told what {column} of {name.name} is made of")
        fields = graph.fields_around(roots, depth, downstream)
        return {"graph": self._field_nodes(graph, fields)}

    def _field_nodes(self, graph: Graph, fields: set[Field]) -> Rows:
        about = {name: self.answers.row(name)["facets"] for name in {f.dataset for f in fields}}
        types = {Field(name, f["name"]): f.get("type") for name, said in about.items() for f in fields_of(said)}
        targets: dict[Field, list[Field]] = {}
        for at in sorted(fields):
            for source in graph.columns.get(at, ()):
                targets.setdefault(source.field, []).append(at)
        nodes = []
        for at in sorted(fields):
            sources = [s for s in graph.columns.get(at, ()) if s.field in fields]
            links = about[at.dataset].get("symlinks")
            nodes.append({
                "id": field_id(at), "type": "DATASET_FIELD",
                "data": {
                    "namespace": at.dataset.namespace, "dataset": at.dataset.name, "datasetVersion": None,
                    "field": at.name, "fieldType": types.get(at), "facets": {"symlinks": links} if links else {},
                    "transformationDescription": None, "transformationType": None,
                    "inputFields": [{**input_of(s.field, s.transformations), "job": vars(s.job)} for s in sources],
                },
                "inEdges": [{"origin": field_id(s.field), "destination": field_id(at)} for s in sources],
                "outEdges": [{"origin": field_id(at), "destination": field_id(t)} for t in targets.get(at, ())],
            })  # fmt: skip
        return nodes

    def _dataset_nodes(self, graph: Graph, datasets: set[Name], jobs: set[Name]) -> Rows:
        nodes = []
        for name in sorted(datasets):
            node = f"dataset:{name.namespace}:{name.name}"
            writers = [f"job:{j.namespace}:{j.name}" for j in sorted(jobs) if name in graph.jobs[j].outputs]
            readers = [f"job:{j.namespace}:{j.name}" for j in sorted(jobs) if name in graph.jobs[j].inputs]
            nodes.append({
                "id": node, "type": "DATASET", "data": dataset_of(self.answers.row(name)),
                "inEdges": [{"origin": job, "destination": node} for job in writers],
                "outEdges": [{"origin": node, "destination": job} for job in readers],
            })  # fmt: skip
        return nodes

    def _job_nodes(self, graph: Graph, jobs: set[Name], datasets: set[Name]) -> Rows:
        nodes = []
        for name in sorted(jobs):
            node, job = f"job:{name.namespace}:{name.name}", graph.jobs[name]
            ends = [(at, f"dataset:{at.namespace}:{at.name}") for at in sorted(datasets)]
            nodes.append({
                "id": node, "type": "JOB", "data": self.answers.job_of(self.answers.job_row(name), graph),
                "inEdges": [{"origin": end, "destination": node} for at, end in ends if at in job.inputs],
                "outEdges": [{"origin": node, "destination": end} for at, end in ends if at in job.outputs],
            })  # fmt: skip
        return nodes


def _within(inputs: set[Name], outputs: set[Name], datasets: set[Name]) -> bool:
    """Return whether a job belongs to the picture: both its ends do, as far as it has two."""
    return bool((inputs | outputs) & datasets) and all(not ends or ends & datasets for ends in (inputs, outputs))


def _split(text: str, known: Iterable[Name]) -> Name | None:
    return next((name for name in known if f"{name.namespace}:{name.name}" == text), None)


def _then(at: datetime | None) -> str:
    return f"as of {at.isoformat()}, " if at else ""
