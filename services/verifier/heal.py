"""Healing: reads what differs from the source again, by an incremental snapshot of the ranges that it lies in."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from pipelines.sources.base.database import SourceSession
from pipelines.sources.base.tables import EVERY_KEY, KeyRange, SourceTable
from services.stack.endpoints import StackSettings
from services.stack.lake import open_catalog
from services.stack.source import connect
from services.verify import record
from services.verify.rounds import Finding

# Those that reading rows of the source again can mend.
MENDED = {"differs", "missing"}


@dataclass
class Healing:
    """What was done for a table.

    ``asked``: ranges that are read again. ``left``: keys to the kind of difference that this doesn't mend;
    ``problems``: nor these.
    """

    table: str
    asked: list[KeyRange] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def heal(settings: StackSettings, names: Iterable[str] = ()) -> list[Healing]:
    """Have every range of the named tables read again in which the verifier has confirmed a difference.

    All tables, if none is named. Raises CannotVerify for a name that it doesn't know, Unreachable, SourceError and
    PyIceberg's errors.
    """
    chosen = [state for state in record.named(record.read(open_catalog(settings)), names) if state.confirmed]
    with connect(settings) as source:
        tables = {table.full_name: table for table in source.tables()}
        return [_heal(source, tables[state.table], state.confirmed) for state in chosen if state.table in tables]


def _heal(source: SourceSession, table: SourceTable, findings: tuple[Finding, ...]) -> Healing:
    done = Healing(table.full_name)
    done.problems = [problem for finding in findings for problem in finding.problems]
    done.left = {key: kind for finding in findings for key, kind in finding.keys.items() if kind not in MENDED}
    if not table.key and (rows := sum(finding.more for finding in findings)):
        done.problems.append(
            f"{rows:,} rows or more differ, and it has no key by which to read them again; `lakehouse resync"
            f" {table.full_name}` makes the table anew"
        )
    to_read = [f for f in findings if f.more or MENDED & set(f.keys.values())] if table.key else []
    in_chunks = source.has_chunks(table)
    for finding in to_read:
        within = finding.within if in_chunks else EVERY_KEY
        source.request_reread(table, within)
        done.asked.append(within)
    return done
