"""The dialect of one kind of database in Debezium's events."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column

from pipelines.schema.lake_types import LakeType


@dataclass(frozen=True)
class Dialect:
    """One kind of database, as its connector speaks.

    ``connector``: the namespace of the connector's ``source`` record. ``source_fields``: what is read of that record,
    name and Avro type. ``log_position``: the position of an event (``event``) in the source's log, as a long that rises
    in the order in which changes were made. ``table``: schema and table of an event, as ``schema.table``.
    ``declared_type``: the lake type of a value where only its declared type tells how it is to be read; None: the Avro
    type tells. ``element_type``: the declared type of an array's elements. ``explained``: whether the declared type
    alone tells how a value of this Avro type is to be read, whatever the schema log says. ``lost``: what of a value of
    a declared type isn't in the events; None: nothing.
    """

    connector: str
    source_fields: tuple[tuple[str, str], ...]
    log_position: Callable[[], Column]
    table: Callable[[], Column]
    declared_type: Callable[[Any, str, Mapping[str, str]], LakeType | None]
    element_type: Callable[[str], str]
    explained: Callable[[Any, str], bool]
    lost: Callable[[str, bool], str | None]
