"""Facets: what is said of datasets, jobs and runs, as OpenLineage's typed facets, from plain values."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from openlineage.client.generated.base import DatasetFacet, InputDatasetFacet, JobFacet, OutputDatasetFacet, RunFacet
from openlineage.client.generated.catalog_dataset import CatalogDatasetFacet
from openlineage.client.generated.column_lineage_dataset import (
    ColumnLineageDatasetFacet,
    Fields,
    InputField,
    Transformation,
)
from openlineage.client.generated.data_quality_assertions_dataset import Assertion, DataQualityAssertionsDatasetFacet
from openlineage.client.generated.data_quality_metrics_input_dataset import DataQualityMetricsInputDatasetFacet
from openlineage.client.generated.dataset_version_dataset import DatasetVersionDatasetFacet
from openlineage.client.generated.documentation_dataset import DocumentationDatasetFacet
from openlineage.client.generated.documentation_job import DocumentationJobFacet
from openlineage.client.generated.error_message_run import ErrorMessageRunFacet
from openlineage.client.generated.input_statistics_input_dataset import InputStatisticsInputDatasetFacet
from openlineage.client.generated.job_type_job import JobTypeJobFacet
from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet
from openlineage.client.generated.ownership_dataset import Owner, OwnershipDatasetFacet
from openlineage.client.generated.parent_run import Job, ParentRunFacet, Run
from openlineage.client.generated.processing_engine_run import ProcessingEngineRunFacet
from openlineage.client.generated.schema_dataset import SchemaDatasetFacet, SchemaDatasetFacetFields
from openlineage.client.generated.storage_dataset import StorageDatasetFacet
from openlineage.client.generated.symlinks_dataset import Identifier, SymlinksDatasetFacet
from openlineage.client.generated.tags_dataset import TagsDatasetFacet, TagsDatasetFacetFields

from lineage.names import Name

Facets = dict[str, DatasetFacet]
# How a column is made of another one.
IDENTITY = Transformation("DIRECT", "IDENTITY")


def masked(how: str) -> Transformation:
    """Return how a column is made of another one whose values it hides."""
    return Transformation("DIRECT", "TRANSFORMATION", how, masking=True)


def schema(columns: Iterable[tuple[str, str | None, str | None]]) -> Facets:
    """Return the facet of columns: name, type, description."""
    fields = [SchemaDatasetFacetFields(name=n, type=t, description=d) for n, t, d in columns]
    return {"schema": SchemaDatasetFacet(fields=fields)}


def version(text: str) -> Facets:
    """Return which state of the dataset it is: a snapshot's number, the offsets of a topic."""
    return {"version": DatasetVersionDatasetFacet(text)}


def column_lineage(source: Name, columns: Mapping[str, tuple[str, Transformation]]) -> Facets:
    """Return column to the one of ``source`` that it is made of, and how."""
    return many_column_lineage({column: [(source, origin, how)] for column, (origin, how) in columns.items()})


def many_column_lineage(columns: Mapping[str, Iterable[tuple[Name, str, Transformation]]]) -> Facets:
    """Return column to those, each of a dataset, that it is made of, and how."""
    fields = {
        column: Fields([InputField(of.namespace, of.name, origin, [how]) for of, origin, how in origins])
        for column, origins in columns.items()
    }
    return {"columnLineage": ColumnLineageDatasetFacet(fields)}


def ownership(owners: Mapping[str, str | None]) -> Facets:
    """Return the facet of kind of owner to who it is, as far as somebody is."""
    known = [Owner(name, kind) for kind, name in owners.items() if name]
    return {"ownership": OwnershipDatasetFacet(known)} if known else {}


def documentation(text: str | None) -> Facets:
    """Return what the dataset is."""
    return {"documentation": DocumentationDatasetFacet(text)} if text else {}


def tags(key: str, values: Mapping[str, str], source: str) -> Facets:
    """Return column to what it is tagged with."""
    found = [TagsDatasetFacetFields(key=key, value=value, source=source, field=name) for name, value in values.items()]
    return {"tags": TagsDatasetFacet(found)} if found else {}


def lake_table(symlink: Name, catalog_uri: str, warehouse: str) -> Facets:
    """Return what makes a dataset a table of the lake: its name in the catalog, and how it is stored."""
    return {
        "symlinks": SymlinksDatasetFacet([Identifier(symlink.namespace, symlink.name, "TABLE")]),
        "catalog": CatalogDatasetFacet(
            framework="iceberg", type="rest", name="lake", metadataUri=catalog_uri, warehouseUri=warehouse,
            source="spark",
        ),
        "storage": StorageDatasetFacet(storageLayer="iceberg", fileFormat="parquet"),
    }  # fmt: skip


def read(rows: int | None = None) -> dict[str, InputDatasetFacet]:
    """Return how much of a dataset was read."""
    return {} if rows is None else {"inputStatistics": InputStatisticsInputDatasetFacet(rowCount=rows)}


def written(rows: int, size: int | None = None, files: int | None = None) -> dict[str, OutputDatasetFacet]:
    """Return how much was written into a dataset."""
    return {"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=rows, size=size, fileCount=files)}


def assertions(found: Sequence[Mapping[str, Any]], rows: int | None) -> dict[str, InputDatasetFacet]:
    """Return what a check found. No value of any row.

    ``found``: ``name``, ``kind``, ``column`` and ``success`` of each promise; ``rows``: how many there are.
    """
    told = [
        Assertion(assertion=each["kind"], success=each["success"], column=each["column"], name=each["name"])
        for each in found
    ]
    metrics = DataQualityMetricsInputDatasetFacet(columnMetrics={}, rowCount=rows)
    facets: dict[str, InputDatasetFacet] = {"dataQualityAssertions": DataQualityAssertionsDatasetFacet(told)}
    return facets if rows is None else {**facets, "dataQualityMetrics": metrics}


def engine(name: str, version: str) -> dict[str, RunFacet]:
    """Return what a run ran on."""
    return {"processing_engine": ProcessingEngineRunFacet(version=version, name=name)}


def parent(run: str, job: Name) -> dict[str, RunFacet]:
    """Return the run that a run is part of."""
    return {"parent": ParentRunFacet(Run(run), Job(job.namespace, job.name))}


def error(message: str) -> dict[str, RunFacet]:
    """Return why a run failed."""
    return {"errorMessage": ErrorMessageRunFacet(message, "python")}


def job_type(streams: bool, integration: str, description: str) -> dict[str, JobFacet]:
    """Return what kind of job it is, and what it does."""
    kind = JobTypeJobFacet("STREAMING" if streams else "BATCH", integration, "JOB")
    return {"jobType": kind, "documentation": DocumentationJobFacet(description)}
