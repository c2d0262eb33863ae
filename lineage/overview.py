"""Overview: namespaces, sources and tags, and how many events there were, in the shapes of Marquez' read API."""

from collections.abc import Iterable
from dataclasses import dataclass

from lineage.answers import NotKnown
from lineage.periods import Interval
from lineage.shapes import Json
from lineage.store import Rows, Store

# What is counted by when it was first told of.
COUNTED = {"jobs": "job", "datasets": "dataset", "sources": "source"}


@dataclass(frozen=True)
class Overview:
    """What can be asked of a store as a whole. Raises NotKnown, and psycopg's errors."""

    store: Store

    def namespaces(self, limit: int, offset: int) -> Rows:
        """Return namespaces of datasets and jobs."""
        found = self.store.rows(f"{_NAMESPACES} ORDER BY name LIMIT %s OFFSET %s", (limit, offset))
        return [_namespace(row) for row in found]

    def namespace(self, name: str) -> Json:
        """Return one namespace."""
        row = self.store.one(f"{_NAMESPACES} HAVING namespace = %s", (name,))
        if row is None:
            raise NotKnown(f"no dataset or job is in a namespace {name}")
        return _namespace(row)

    def sources(self, limit: int, offset: int) -> Rows:
        """Return where datasets are: what their producer calls it, or their namespace."""
        return [
            _source(row) for row in self.store.rows(f"{_SOURCES} ORDER BY name LIMIT %s OFFSET %s", (limit, offset))
        ]

    def source(self, name: str) -> Json:
        """Return one source."""
        row = self.store.one(f"SELECT * FROM ({_SOURCES}) source WHERE name = %s", (name,))
        if row is None:
            raise NotKnown(f"no dataset is in a source {name}")
        return _source(row)

    def tags(self, limit: int, offset: int) -> Rows:
        """Return the tags of datasets and their columns."""
        return self.store.rows(f"{_TAGS} ORDER BY name LIMIT %s OFFSET %s", (limit, offset))

    def events(self, intervals: Iterable[Interval]) -> Rows:
        """Return how many runs were told to start and end in each interval."""
        return self._counted(_EVENTS, intervals)

    def known(self, asset: str, intervals: Iterable[Interval]) -> Rows:
        """Return how many of an asset (of `COUNTED`) were known at the end of each interval."""
        return self._counted(_KNOWN.format(COUNTED[asset]), intervals)

    def _counted(self, query: str, intervals: Iterable[Interval]) -> Rows:
        starts, ends = zip(*intervals, strict=True)
        return self.store.rows(query, {"starts": list(starts), "ends": list(ends)})


def _namespace(row: Json) -> Json:
    return {"name": row["name"], "createdAt": row["since"], "updatedAt": row["at"], "ownerName": "",
            "description": None, "isHidden": False}  # fmt: skip


def _source(row: Json) -> Json:
    kind = row["url"].partition("://")[0]
    return {"type": kind.upper(), "name": row["name"], "createdAt": row["since"], "updatedAt": row["at"],
            "connectionUrl": row["url"], "description": None}  # fmt: skip


_NAMESPACES = """
SELECT namespace AS name, min(created_at) AS since, max(updated_at) AS at
FROM (SELECT namespace, created_at, updated_at FROM dataset
      UNION ALL SELECT namespace, created_at, updated_at FROM job) every
GROUP BY namespace"""
_SOURCES = """
SELECT coalesce(facets#>>'{dataSource,name}', namespace) AS name,
       min(coalesce(facets#>>'{dataSource,uri}', namespace)) AS url,
       min(created_at) AS since, max(updated_at) AS at
FROM dataset GROUP BY 1"""
_TAGS = """
SELECT DISTINCT concat(tag->>'key', ':', tag->>'value') AS name, NULL AS description
FROM dataset, jsonb_path_query(facets, '$.tags.tags[*]') AS tag"""
_INTERVALS = "unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) AS i (since, until)"
_EVENTS = f"""
SELECT i.since AS "startInterval", i.until AS "endInterval",
       count(*) FILTER (WHERE type = 'FAIL') AS fail, count(*) FILTER (WHERE type = 'START') AS start,
       count(*) FILTER (WHERE type = 'COMPLETE') AS complete, count(*) FILTER (WHERE type = 'ABORT') AS abort
FROM {_INTERVALS} LEFT JOIN event ON at >= i.since AND at < i.until GROUP BY 1, 2 ORDER BY 1"""
_KNOWN = f"""
WITH source AS (SELECT min(created_at) AS created_at FROM dataset
                GROUP BY coalesce(facets#>>'{{{{dataSource,name}}}}', namespace))
SELECT i.since AS "startInterval", i.until AS "endInterval", count(k.created_at) AS count
FROM {_INTERVALS} LEFT JOIN {{}} k ON k.created_at < i.until GROUP BY 1, 2 ORDER BY 1"""
