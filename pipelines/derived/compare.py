"""What a derived table has, beside what its query gives: the rows that differ."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import MapType

from pipelines.errors import StopPipeline, first_line
from pipelines.lake.catalog import Lake
from pipelines.lake.table import LakeTable
from pipelines.protection.columns import ProtectedColumns
from pipelines.spark.dataframes import from_arrow
from pipelines.specs.derived import DerivedSpec
from pipelines.sql import quote

# Of a row that differs: what is to be done with it (see the values), and where the table has it.
ACTION, INSERT, UPDATE, DELETE = "__action", "insert", "update", "delete"
FILE, PLACE = "__file", "__place"
TIMES = "__times"
# Keys with fewer values than this are looked for by a list of them, by which files and row groups are left out.
_LISTED = 2_000


@dataclass(frozen=True)
class Keys:
    """The keys whose rows are computed and compared. None: all, or those with a column ``between`` two values."""

    rows: pa.Table | None
    between: tuple[str, Any, Any] | None = None

    def of(self, session: SparkSession, frame: DataFrame) -> DataFrame:
        """Return the rows of ``frame`` that have one of the keys."""
        if self.between is not None:
            column, start, end = self.between
            frame = frame.where((F.col(quote(column)) >= F.lit(start)) & (F.col(quote(column)) < F.lit(end)))
        if self.rows is None:
            return frame
        names, listed = self.rows.column_names, 0
        for name in names:
            values = pc.unique(self.rows[name])
            if len(values) <= _LISTED and not values.null_count:
                frame = frame.where(F.col(quote(name)).isin(values.to_pylist()))
                listed += 1
        if listed == len(names) == 1:
            return frame
        keys = from_arrow(session, self.rows.rename_columns([f"__key_{name}" for name in names]))
        same = [F.col(quote(name)).eqNullSafe(F.col(quote(f"__key_{name}"))) for name in names]
        return frame.join(F.broadcast(keys), same, "left_semi")


@dataclass(frozen=True)
class Computed:
    """What a query gives. ``plain``: before its values are protected; ``types``: Iceberg's of its columns then."""

    rows: DataFrame
    plain: DataFrame
    types: dict[str, Any]


def computed(session: SparkSession, spec: DerivedSpec, protected: ProtectedColumns) -> Computed:
    """Return what the query gives of the inputs that the session shows. Raises StopPipeline."""
    plain = queried(session, spec)
    types = {field["name"]: field["type"] for field in Lake(session).schema_of(plain)["fields"]}
    return Computed(protected.applied(plain, types), plain, types)


def queried(session: SparkSession, spec: DerivedSpec) -> DataFrame:
    """Return the same as it is before its values are protected. Raises StopPipeline."""
    try:
        frame = session.sql(spec.sql)
    except (AnalysisException, ParseException) as error:
        raise StopPipeline(
            f"{spec.table}: its query can't be run: {first_line(error)} Mend sql in its spec, or what it is made of;"
            " it is tried again by itself."
        ) from error
    names = frame.columns
    lacking = [name for name in spec.key if name not in names]
    double = sorted({name for name in names if names.count(name) > 1})
    maps = [field.name for field in frame.schema if isinstance(field.dataType, MapType)]
    for wrong, why in (
        (lacking, "is in the key, and the query doesn't give it"),
        (double, "comes out of the query more than once"),
        (maps, "is a map, and two maps can't be compared"),
    ):
        if wrong:
            raise StopPipeline(f"{spec.table}: the column {wrong[0]} {why}: mend sql in its spec, and restart")
    return frame


def differing(
    session: SparkSession, spec: DerivedSpec, rows: DataFrame, table: LakeTable | None, keys: Keys,
    pinned: bool = False,
) -> DataFrame:  # fmt: skip
    """Return the rows that the table has to get, or lose, for these keys.

    ``rows``: all that the query gives. A row has their columns, beside ``ACTION``, ``FILE`` and ``PLACE``; one to be
    deleted has its key alone. ``pinned``: the table is read as of the snapshot that it had when it was looked up.
    """
    columns = rows.columns
    new = keys.of(session, rows).select(
        *(F.col(quote(name)).alias(f"n_{name}") for name in columns), F.lit(True).alias("__new")
    )
    key = [quote(f"n_{name}") for name in spec.key]
    new = new.withColumn(TIMES, F.expr(f"count(1) OVER (PARTITION BY {', '.join(key)})"))
    old = keys.of(session, _stored(session, table, columns, new, pinned)).select(
        *(F.col(quote(name)).alias(f"o_{name}") for name in columns), FILE, PLACE
    )
    same = [F.col(quote(f"n_{name}")).eqNullSafe(F.col(quote(f"o_{name}"))) for name in spec.key]
    both = new.join(old, same, "full_outer")
    others = [name for name in columns if name not in spec.key]
    equal = [F.col(quote(f"n_{name}")).eqNullSafe(F.col(quote(f"o_{name}"))) for name in others]
    changed = F.lit(False)
    for each in equal:
        changed = changed | ~each
    is_new, is_old = F.col("__new").isNotNull(), F.col(FILE).isNotNull()
    action = (
        F.when(is_new & ~is_old, INSERT).when(~is_new, DELETE).when(changed | (F.col(TIMES) > 1), UPDATE)
    )  # fmt: skip
    values = [
        F.coalesce(F.col(quote(f"n_{name}")), F.col(quote(f"o_{name}"))).alias(name)
        if name in spec.key else F.col(quote(f"n_{name}")).alias(name)
        for name in columns
    ]  # fmt: skip
    marked = both.withColumn(ACTION, action).where(F.col(ACTION).isNotNull())
    return marked.select(*values, ACTION, FILE, PLACE, TIMES)


def check_once(spec: DerivedSpec, rows: pa.Table) -> None:
    """Raise StopPipeline where the query gives two rows of one key."""
    double = rows.filter(pc.greater(pc.fill_null(rows[TIMES], 1), 1))
    if double.num_rows:
        row = double.slice(0, 1).to_pylist()[0]
        key = ", ".join(f"{name}={row[name]!r}" for name in spec.key)
        raise StopPipeline(
            f"{spec.table}: the query gives {row[TIMES]} rows for {key}: its key doesn't tell them apart. Mend key or"
            " sql in its spec, and restart"
        )


def _stored(
    session: SparkSession, table: LakeTable | None, columns: Sequence[str], like: DataFrame, pinned: bool
) -> DataFrame:
    """Return the rows that the table has, each with where it is."""
    if table is None or table.snapshot_id is None:
        nothing = like.limit(0).select(*(F.col(quote(f"n_{name}")).alias(name) for name in columns))
        return nothing.withColumns({FILE: F.lit(None).cast("string"), PLACE: F.lit(None).cast("bigint")})
    version = f" VERSION AS OF {table.snapshot_id}" if pinned else ""
    rows = session.sql(f"SELECT *, _file AS {FILE}, _pos AS {PLACE} FROM {table.sql_name}{version}")
    return rows.select(*(quote(name) for name in columns), FILE, PLACE)


def told(value: Any) -> Any:
    """Return a value as an example of JSON has it: text where JSON has no such type."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
