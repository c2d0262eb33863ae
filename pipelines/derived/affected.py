"""Which keys of a derived table the changes of its inputs affect."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.derived.inputs import Origin, Snapshots, show
from pipelines.derived.windows import WindowRules
from pipelines.lake.arrow_schema import NoArrowType, arrow_field, for_spark
from pipelines.lake.changed_rows import ChangedFiles, changed_files, read_changed
from pipelines.lake.storage import Storage
from pipelines.lake.table import LakeTable
from pipelines.spark.dataframes import from_arrow
from pipelines.specs.derived import CHANGED, DerivedSpec
from pipelines.sql import quote

# Of changed rows, and of keys, beyond which all of the table is computed: it costs no more then, and less memory.
MOST_ROWS, MOST_KEYS = 200_000, 20_000
_WORD = re.compile(r"\w+")
_ALL_COLUMNS = re.compile(r"(\bSELECT\s+(DISTINCT\s+)?|,\s*|\.)\*", re.IGNORECASE)


class Whole(Exception):
    """All of the table is to be computed. The message says why."""


@dataclass(frozen=True)
class Affected:
    """The keys that are affected, whose rows are all that may come out differently.

    ``late``: changed rows of the windows' input that came too late. ``since``: when the oldest change was committed, in
    milliseconds since 1970; None: nothing has changed.
    """

    keys: pa.Table
    late: int = 0
    since: int | None = None


def moved(known: Origin, now: Origin, tables: Mapping[str, LakeTable], spec: DerivedSpec) -> dict[str, ChangedFiles]:
    """Return, of each input that has changed, the files that tell what. Raises Whole where that can't be told."""
    if known.definition != now.definition:
        raise Whole("its definition has changed")
    found = {}
    for alias, current in now.snapshots.items():
        before = known.snapshots.get(alias)
        if before is None or before.uuid != current.uuid:
            raise Whole(f"{spec.inputs[alias].table} is another table")
        if before.schema != current.schema:
            raise Whole(f"the columns of {spec.inputs[alias].table} have changed")
        if before.snapshot == current.snapshot:
            continue
        if before.snapshot is None or current.snapshot is None:
            raise Whole(f"{spec.inputs[alias].table} was empty")
        files = changed_files(tables[alias], before.snapshot, current.snapshot)
        if files is None:
            raise Whole(f"what changed in {spec.inputs[alias].table} can't be told from its snapshots")
        if files.since is None:
            continue
        if spec.inputs[alias].affects is None:
            raise Whole(f"{spec.inputs[alias].table} has changed, and its spec doesn't say which keys that affects")
        if files.rows > MOST_ROWS:
            raise Whole(f"{files.rows:,} rows of {spec.inputs[alias].table} have changed")
        found[alias] = files
    return found


def affected(
    session: SparkSession, spec: DerivedSpec, tables: Mapping[str, LakeTable], before: Snapshots, now: Snapshots,
    files: Mapping[str, ChangedFiles], read: Collection[str], windows: WindowRules | None,
    finals: tuple[int | None, int | None],
) -> Affected:  # fmt: skip
    """Return which keys these changed files affect. ``read``: the columns that the table's query reads of its inputs.

    What a row affected before it changed is told by the other inputs as they were, and what it affects by what they
    are: each query runs on both. ``finals``: the watermark then and now. Raises Whole.
    """
    changed = {alias: _changed(session, spec, alias, tables[alias], files[alias], read, windows) for alias in files}
    parts: list[DataFrame] = []
    # A query that asks no input which has changed says the same of both.
    both = [alias for alias in changed if _words(spec, alias) & changed.keys()]
    for at, watermark, asked in ((before, finals[0], both), (now, finals[1], list(changed))):
        if asked:
            show(session, tables, at, {} if windows is None else {windows.window.input: windows.counted(watermark)})
            parts += [_keys(session, spec, alias, changed[alias]) for alias in asked]
    if windows is not None and windows.window.emit == "final" and finals[0] != finals[1]:
        rows = session.table(windows.window.input).where(windows.newly_final(finals[0]))
        parts.append(_keys(session, spec, windows.window.input, rows))
    late = 0
    if windows is not None and windows.window.input in changed:
        late = changed[windows.window.input].where(f"NOT ({windows.in_time})").count()
    keys = _few(parts)
    return Affected(keys, late, min((each.since for each in files.values() if each.since is not None), default=None))


def _few(parts: list[DataFrame]) -> pa.Table:
    frame = parts[0]
    for part in parts[1:]:
        frame = frame.union(part)
    keys = frame.distinct().limit(MOST_KEYS + 1).toArrow()
    if keys.num_rows > MOST_KEYS:
        raise Whole(f"more than {MOST_KEYS:,} keys are affected")
    return keys


def _keys(session: SparkSession, spec: DerivedSpec, alias: str, rows: DataFrame) -> DataFrame:
    """Return the keys that rows of an input affect, by the views that the session has now."""
    query = spec.inputs[alias].affects
    assert query is not None
    rows.createOrReplaceTempView(CHANGED)
    return session.sql(query).select(*(F.col(quote(name)) for name in spec.key))


def _words(spec: DerivedSpec, alias: str) -> set[str]:
    """Return the words of the query that tells which keys an input affects."""
    return {word.lower() for word in _WORD.findall(spec.inputs[alias].affects or "")}


def _changed(
    session: SparkSession, spec: DerivedSpec, alias: str, table: LakeTable, files: ChangedFiles, read: Collection[str],
    windows: WindowRules | None,
) -> DataFrame:  # fmt: skip
    """Read the changed rows of an input, in the columns that something asks for."""
    # A row whose values in none of these have changed affects nothing, whatever else of it has.
    query, words = spec.inputs[alias].affects or "", _words(spec, alias) | {name.lower() for name in read}
    if windows is not None and windows.window.input == alias:
        words |= {windows.window.time.lower(), windows.arrived.lower()}
    names = [name for name in table.column_types if name.lower() in words or _ALL_COLUMNS.search(query)]
    columns = {column["name"]: column for column in table.columns}
    try:
        rows = read_changed(Storage.of(session), files, [arrow_field(columns[name]) for name in names])
    except (NoArrowType, OSError) as error:
        raise Whole(f"changed rows of {table.namespace}.{table.name} can't be read: {type(error).__name__}") from error
    types = session.table(table.sql_name).select(*(quote(name) for name in names)).schema
    return from_arrow(session, for_spark(rows), types)
