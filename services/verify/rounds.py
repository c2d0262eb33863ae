"""Where the verifier stands with a table: its round over the chunks, and what was found to differ. Pure.

A round goes over the whole space of keys, so that it also meets rows of the lake which the source hasn't got. What
differs in a chunk is pending until a look at the same keys at a newer position, once the lake holds all that the first
one held: only what differs in both is a difference. A round ends when nothing is pending; if nothing differs, the table
is verified through the position at which the round began, for every key was compared there or later.
"""

from datetime import datetime, timedelta

from pydantic import BaseModel, ConfigDict, Field

from pipelines.sources.base.tables import Key, KeyRange

MOST_FINDINGS, MOST_LOOKS = 16, 10


class _Model(BaseModel):
    # The keys of what is kept and shown are an outside face.
    model_config = ConfigDict(frozen=True, validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)


class VerifiedPosition(_Model):
    """A position: the source's log and clock there, and the lake's snapshot that it was compared with."""

    log_position: str = Field(alias="lsn")
    at: datetime
    snapshot_id: int | None


class RowCounts(_Model):
    """How many rows a table has on each side."""

    source: int
    lake: int

    def __str__(self) -> str:
        return f"{self.source:,} rows in the source, {self.lake:,} in the lake"


class ChunkResult(_Model):
    """What a look at a range of keys found.

    ``keys``: the first few differing keys to the kind of difference, ``more`` how many rows differ besides: all, in a
    table without a key; at least so many, where ``counts`` says all that is known of rows which were only counted and
    summed up. ``ends``: partition to the end of the table's topic at that position.
    """

    after: Key | None
    upto: Key | None
    mark: VerifiedPosition
    rows: int = 0
    keys: dict[str, str] = {}
    more: int = 0
    counts: RowCounts | None = None
    problems: tuple[str, ...] = ()
    ends: dict[int, int] = {}


class Finding(_Model):
    """Keys of a range that differ, and what else makes the table differ. ``found``: where that was first seen.

    ``ends``: what the lake must hold before it is looked at again. ``confirmed``: how many looks have found it again.
    """

    after: Key | None
    upto: Key | None
    keys: dict[str, str]
    more: int
    problems: tuple[str, ...]
    found: VerifiedPosition
    ends: dict[int, int]
    looked_at: datetime
    confirmed: int = 0
    counts: RowCounts | None = None

    @property
    def within(self) -> KeyRange:
        """The range of keys to look at."""
        return KeyRange(self.after, self.upto)

    @property
    def count(self) -> int:
        """How many rows differ."""
        return len(self.keys) + self.more

    def due_at(self, again: timedelta, longest: timedelta) -> datetime:
        """Return when to look at it again: the older it is, the later."""
        return self.looked_at + min(again * (1 << self.confirmed), max(again, longest))


class TableState(_Model):
    """Where the verifier stands with a table.

    ``key``: the key's columns with their types; another key begins another round. ``begun``: where the round under way
    began, ``cursor`` the last key it has compared, ``rows`` how many; ``walked``: it has reached the end. ``verified``:
    where the last round began that found no difference. ``not_before``: when it may be looked at again,
    ``not_compared`` why it can't be now.
    """

    table: str
    key: tuple[str, ...] = ()
    begun: VerifiedPosition | None = None
    cursor: Key | None = None
    rows: int = 0
    walked: bool = False
    verified: VerifiedPosition | None = None
    ended_at: datetime | None = None
    looked_at: datetime | None = None
    not_before: datetime | None = None
    findings: tuple[Finding, ...] = ()
    not_compared: str | None = None

    @property
    def confirmed(self) -> tuple[Finding, ...]:
        """What is known to differ."""
        return tuple(finding for finding in self.findings if finding.confirmed)

    @property
    def differences(self) -> int:
        """Rows known to differ, and problems of the table as a whole."""
        return sum(finding.count + len(finding.problems) for finding in self.confirmed)

    @property
    def counts(self) -> RowCounts | None:
        """How many rows each side has, where they were only counted and summed up: at least ``differences`` differ."""
        return next((finding.counts for finding in self.confirmed if finding.counts), None)

    def of_key(self, key: tuple[str, ...]) -> "TableState":
        """Return the state for a table with this key: if it had another, its round begins anew."""
        if key == self.key:
            return self
        if not self.key:
            return self.model_copy(update={"key": key})
        return self.model_copy(update={"key": key, **_NO_ROUND, "findings": (), "ended_at": None})

    def anew(self) -> "TableState":
        """Return the state of a table whose round begins anew, whatever was found so far."""
        return self.model_copy(update={**_NO_ROUND, "findings": (), "ended_at": None, "not_before": None})

    def walk_due(self, now: datetime, pause: timedelta) -> bool:
        """Return whether the next chunk is to be compared."""
        if len(self.findings) >= MOST_FINDINGS or self._rests(now):
            return False
        if self.begun is not None:
            return not self.walked
        if any(finding.more for finding in self.findings):
            return False
        return self.ended_at is None or self.ended_at + pause <= now

    def again_due(
        self, now: datetime, again: timedelta, longest: timedelta, held: dict[int, int]
    ) -> tuple[Finding, ...]:
        """Return what is to be looked at again. ``held``: partition to the end of what the lake holds of the topic."""
        return tuple(
            finding
            for finding in self.findings
            if finding.due_at(again, longest) <= now
            and not self._rests(now)
            and all(held.get(partition, 0) >= end for partition, end in finding.ends.items())
        )

    def walk(self, seen: ChunkResult, now: datetime) -> "TableState":
        """Return the state after a look at the round's next chunk."""
        known = {key for finding in self.findings for key in finding.keys}
        told = {problem for finding in self.findings for problem in finding.problems}
        fresh = _finding(seen, known, told, now)
        return self.model_copy(
            update={
                "begun": self.begun or seen.mark, "cursor": seen.upto, "rows": self.rows + seen.rows,
                "walked": seen.upto is None, "looked_at": now, "not_compared": None,
                "findings": (*self.findings, fresh) if fresh else self.findings,
            }
        )._settled(now)  # fmt: skip

    def again(self, finding: Finding, seen: ChunkResult, now: datetime) -> "TableState":
        """Return the state after another look at the keys of ``finding``."""
        others = tuple(other for other in self.findings if other != finding)
        if finding.more:
            keys = seen.keys
        else:
            # One that isn't named may differ still, where not all are.
            keys = {k: seen.keys.get(k, kind) for k, kind in finding.keys.items() if k in seen.keys or seen.more}
        more = seen.more if finding.more else 0
        problems = tuple(problem for problem in finding.problems if problem in seen.problems)
        times = min(finding.confirmed + 1, MOST_LOOKS)
        update = {"keys": keys, "more": more, "counts": seen.counts, "problems": problems, "confirmed": times,
                  "looked_at": now}  # fmt: skip
        kept = (finding.model_copy(update=update),) if keys or more or problems else ()
        known = {key for other in (*others, *kept) for key in other.keys}
        told = {problem for other in (*others, *kept) for problem in other.problems}
        fresh = None if finding.more else _finding(seen, known, told, now)
        findings = (*others, *kept, *((fresh,) if fresh else ()))
        return self.model_copy(update={"findings": findings, "looked_at": now, "not_compared": None})._settled(now)

    def leave_out(self, reason: str, now: datetime) -> "TableState":
        """Return the state of a table that can't be compared this way; it is looked at again in the next round."""
        update = {**_NO_ROUND, "findings": (), "not_compared": reason, "ended_at": now, "looked_at": now}
        return self.model_copy(update=update)

    def put_off(self, reason: str, now: datetime, again: timedelta) -> "TableState":
        """Return the state of a table of which nothing could be said at this position."""
        update = {"not_compared": reason, "looked_at": now, "not_before": now + again}
        return self.model_copy(update=update)

    def give_way(self, until: datetime) -> "TableState":
        """Return the state of a table that isn't looked at before then."""
        return self.model_copy(update={"not_before": until})

    def _rests(self, now: datetime) -> bool:
        return self.not_before is not None and now < self.not_before

    def _settled(self, now: datetime) -> "TableState":
        if not self.walked or any(not finding.confirmed for finding in self.findings):
            return self
        verified = self.verified if self.findings else self.begun
        return self.model_copy(update={**_NO_ROUND, "verified": verified, "ended_at": now})


_NO_ROUND = {"begun": None, "cursor": None, "walked": False, "rows": 0}


def _finding(seen: ChunkResult, known: set[str], told: set[str], now: datetime) -> Finding | None:
    """Return what of ``seen`` isn't known yet."""
    keys = {key: kind for key, kind in seen.keys.items() if key not in known}
    problems = tuple(problem for problem in seen.problems if problem not in told)
    if not (keys or seen.more or problems):
        return None
    return Finding(
        after=seen.after, upto=seen.upto, keys=keys, more=seen.more, problems=problems, found=seen.mark, ends=seen.ends,
        looked_at=now, counts=seen.counts,
    )  # fmt: skip
