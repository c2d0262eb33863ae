"""Quote names and texts in SQL: the one place where a name becomes part of it."""

from collections.abc import Iterable


def quote(name: str) -> str:
    """Quote a column or alias name as a Spark SQL identifier. Any name is safe; ValueError on an empty one."""
    if not name:
        raise ValueError("an identifier can't be empty")
    return "`" + name.replace("`", "``") + "`"


def quote_path(parts: Iterable[str]) -> str:
    """Quote each part of a dotted path, as in catalog.namespace.table."""
    return ".".join(quote(part) for part in parts)


def literal(text: str) -> str:
    """Quote a text as a Spark SQL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
