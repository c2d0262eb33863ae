"""The contract that a table could have today, for its owner to go on with."""

from typing import Any

from open_data_contract_standard.model import (
    CustomProperty,
    DataQuality,
    Description,
    EnumValue,
    OpenDataContractStandard,
    SchemaObject,
    SchemaProperty,
    ServiceLevelAgreementProperty,
    Team,
    TeamMember,
)

from pipelines.sources.base.tables import DescribedColumn, DescribedTable
from quality.contract import ENGINE

STANDARD = "v3.2.0"
UNKNOWN = "to be named"


def starter(source: str, table: DescribedTable, freshness_seconds: float) -> OpenDataContractStandard:
    """Return what the source says of the table, as a draft of a contract.

    ``source``: the connector's name; ``freshness_seconds``: what the mirror's spec asks for. Who owns it nobody could
    know. Generated columns, which the lake hasn't got, are left out.
    """
    return OpenDataContractStandard(
        apiVersion=STANDARD, kind="DataContract", id=f"{source}-{table.schema}-{table.name}", version="0.1.0",
        status="draft", name=table.name,
        description=Description(purpose=table.comment or f"The table {table.schema}.{table.name} of {source}."),
        team=Team(members=[TeamMember(username=UNKNOWN, role=role) for role in ("owner", "steward")]),
        schema=[SchemaObject(
            name=table.name, physicalName=f"{table.schema}.{table.name}", physicalType="table",
            description=table.comment,
            properties=[_property(column) for column in table.columns if not column.generated],
            quality=[_check(*check) for check in table.checks] or None,
        )],
        slaProperties=[
            ServiceLevelAgreementProperty(property="freshness", value=freshness_seconds, unit="s", element=table.name)
        ],
    )  # fmt: skip


def _property(column: DescribedColumn) -> SchemaProperty:
    said: dict[str, Any] = {}
    if column.key:
        said |= {"primaryKey": True, "primaryKeyPosition": column.key}
    if column.unique and not column.key:
        said["unique"] = True
    if column.labels:
        said["enum"] = [EnumValue(value=label) for label in column.labels]
    return SchemaProperty(
        name=column.name, physicalType=column.declared, logicalType=column.logical,
        description=column.comment, required=column.required or None, **said,
    )  # fmt: skip


def _check(name: str, condition: str) -> DataQuality:
    """Return a constraint of the source's, which holds there; the owner decides whether the lake shall insist on it."""
    return DataQuality(
        type="custom", engine=ENGINE, name=name, implementation=condition,
        description="A constraint of the source, as PostgreSQL prints it. Write it in Spark's SQL if it isn't yet.",
        customProperties=[CustomProperty(property="onViolation", value="warn")],
    )  # fmt: skip
