"""The graph: what flows from where to where, as it was at a moment, by table and by column.

It is made of the newest run of each job that had begun by then and names datasets. A job that reads and writes the same
dataset (maintenance) is none of its sources.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self, TypeVar

from lineage.names import Name
from lineage.store import Store

T = TypeVar("T")


@dataclass(frozen=True, order=True)
class Field:
    """A column of a dataset."""

    dataset: Name
    name: str


@dataclass
class JobNode:
    """A job, with what its run read and wrote."""

    run: str
    state: str
    inputs: set[Name] = field(default_factory=set)
    outputs: set[Name] = field(default_factory=set)


@dataclass(frozen=True)
class Source:
    """One column that another is made of, by which job, and how (OpenLineage's transformations)."""

    field: Field
    job: Name
    transformations: tuple[dict[str, Any], ...] = ()


@dataclass
class Graph:
    """Jobs by name, and the columns that each column is made of."""

    jobs: dict[Name, JobNode] = field(default_factory=dict)
    columns: dict[Field, list[Source]] = field(default_factory=dict)

    @classmethod
    def at(cls, store: Store, when: datetime | None = None) -> Self:
        """Return the graph as it is, or as it was."""
        graph = cls()
        for row in store.rows(_NEWEST, {"at": when}):
            job, dataset = Name(row["job_namespace"], row["job"]), Name(row["namespace"], row["name"])
            node = graph.jobs.setdefault(job, JobNode(str(row["run"]), row["state"]))
            (node.outputs if row["is_output"] else node.inputs).add(dataset)
            if row["is_output"] and row["columns"]:
                graph._add(job, dataset, row["columns"])
        return graph

    @property
    def datasets(self) -> set[Name]:
        """Every dataset that a job reads or writes."""
        return {name for node in self.jobs.values() for name in (*node.inputs, *node.outputs)}

    def around(self, roots: Iterable[Name], depth: int, jobs: bool = False) -> set[Name]:
        """Return datasets within so many jobs up and down the stream, the ``roots`` with them.

        ``jobs``: the roots are jobs.
        """
        roots = list(roots)
        up, down = roots, roots
        if jobs:
            up = [name for root in roots for name in self.jobs[root].inputs]
            down = [name for root in roots for name in self.jobs[root].outputs]
        return _reach(up, self._sources, depth) | _reach(down, self._targets, depth)

    def fields_around(self, roots: Iterable[Field], depth: int, downstream: bool) -> set[Field]:
        """Return columns within so many jobs up the stream, and down if asked, the ``roots`` with them."""
        roots = list(roots)
        targets: dict[Field, list[Field]] = {}
        for target, sources in self.columns.items():
            for source in sources:
                targets.setdefault(source.field, []).append(target)
        up = _reach(roots, lambda f: [s.field for s in self.columns.get(f, ())], depth)
        return up | _reach(roots, lambda f: targets.get(f, ()), depth) if downstream else up

    def fields(self, dataset: Name) -> set[Field]:
        """Return the columns of a dataset that are made of others, or that others are made of."""
        made = {f for f in self.columns if f.dataset == dataset}
        return made | {s.field for sources in self.columns.values() for s in sources if s.field.dataset == dataset}

    def _sources(self, dataset: Name) -> Iterable[Name]:
        for node in self.jobs.values():
            if dataset in node.outputs and dataset not in node.inputs:
                yield from node.inputs

    def _targets(self, dataset: Name) -> Iterable[Name]:
        for node in self.jobs.values():
            if dataset in node.inputs and dataset not in node.outputs:
                yield from node.outputs

    def _add(self, job: Name, dataset: Name, facet: dict[str, Any]) -> None:
        for name, made in (facet.get("fields") or {}).items():
            known = self.columns.setdefault(Field(dataset, name), [])
            for source in made.get("inputFields") or ():
                at = Field(Name(source["namespace"], source["name"]), source["field"])
                known.append(Source(at, job, tuple(source.get("transformations") or ())))


def _reach(roots: Iterable[T], following: Callable[[T], Iterable[T]], depth: int) -> set[T]:
    found, queue = set(roots), deque((root, depth) for root in roots)
    while queue:
        at, left = queue.popleft()
        for other in following(at) if left > 0 else ():
            if other not in found:
                found.add(other)
                queue.append((other, left - 1))
    return found


_NEWEST = """
SELECT j.namespace AS job_namespace, j.name AS job, r.id AS run, r.state, d.namespace, d.name, u.is_output,
       u.facets->'columnLineage' AS columns
FROM job j
CROSS JOIN LATERAL (
  SELECT id, state FROM run
  WHERE job = j.id AND started_at <= coalesce(%(at)s, 'infinity'::timestamptz)
    AND EXISTS (SELECT FROM use WHERE use.run = run.id)
  ORDER BY started_at DESC LIMIT 1
) r
JOIN use u ON u.run = r.id
JOIN dataset d ON d.id = u.dataset
ORDER BY 1, 2, 5, 6"""
