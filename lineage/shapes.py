"""Shapes: datasets, runs and columns as Marquez' read API has them."""

from collections.abc import Iterable, Mapping
from typing import Any

from lineage.graph import Field
from lineage.store import Rows

Json = dict[str, Any]


def fields_of(facets: Mapping[str, Any]) -> Rows:
    """Return the columns that a schema facet names."""
    return list((facets.get("schema") or {}).get("fields") or [])


def dataset_of(row: Mapping[str, Any]) -> Json:
    """Return a dataset."""
    facets = row["facets"]
    tags: dict[str | None, list[str]] = {}
    for tag in (facets.get("tags") or {}).get("tags") or ():
        tags.setdefault(tag.get("field"), []).append(f"{tag['key']}:{tag['value']}")
    fields = [{"name": f["name"], "type": f.get("type"), "tags": tags.get(f["name"], []),
               "description": f.get("description")} for f in fields_of(facets)]  # fmt: skip
    return {
        "id": {"namespace": row["namespace"], "name": row["name"]},
        "type": "STREAM" if row["namespace"].startswith("kafka:") else "DB_TABLE",
        "name": row["name"], "physicalName": row["name"], "namespace": row["namespace"],
        "sourceName": (facets.get("dataSource") or {}).get("name") or row["namespace"],
        "createdAt": row["created_at"], "updatedAt": row["updated_at"],
        "lastModifiedAt": row["updated_at"], "fields": fields, "tags": tags.get(None, []),
        "description": (facets.get("documentation") or {}).get("description"), "facets": facets, "deleted": False,
    }  # fmt: skip


def version_of(dataset: Mapping[str, Any], row: Mapping[str, Any]) -> Json:
    """Return a version of a dataset, with what its run says of it."""
    name = {"namespace": dataset["namespace"], "name": dataset["name"]}
    return {
        **dataset_of({**dataset, "facets": {**dataset["facets"], **row["facets"]}}),
        "id": {**name, "version": row["version"]}, "version": row["version"], "createdAt": row["at"],
        "lifecycleState": "", "createdByRun": run_of(row),
    }  # fmt: skip


def run_of(row: Mapping[str, Any]) -> Json:
    """Return a run."""
    ended, started = row["ended_at"], row["started_at"]
    return {
        "id": str(row["run"]), "createdAt": started, "updatedAt": row["run_updated_at"],
        "nominalStartTime": None, "nominalEndTime": None, "state": row["state"], "startedAt": started,
        "endedAt": ended, "durationMs": round((ended - started).total_seconds() * 1000) if ended else None,
        "args": {}, "jobVersion": {"namespace": row["job_namespace"], "name": row["job"], "version": None},
        "facets": row["run_facets"],
    }  # fmt: skip


def input_of(at: Field, transformations: Iterable[Mapping[str, Any]]) -> Json:
    """Return a column that another one is made of."""
    steps = list(transformations)
    first: Mapping[str, Any] = steps[0] if steps else {}
    return {
        "namespace": at.dataset.namespace, "dataset": at.dataset.name, "datasetVersion": None, "field": at.name,
        "transformationDescription": first.get("description"), "transformationType": first.get("subtype"),
        "transformations": steps,
    }  # fmt: skip


def field_id(at: Field) -> str:
    """Return a column's node."""
    return f"datasetField:{at.dataset.namespace}:{at.dataset.name}:{at.name}"
