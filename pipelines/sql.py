"""The one place where a name becomes part of SQL text."""

from collections.abc import Iterable


def quote(name: str) -> str:
    """A column or alias name as a Spark SQL identifier. Any name is safe; ValueError on an empty one."""
    if not name:
        raise ValueError("an identifier can't be empty")
    return "`" + name.replace("`", "``") + "`"


def quote_path(parts: Iterable[str]) -> str:
    """A dotted path, as in catalog.namespace.table: each part quoted."""
    return ".".join(quote(part) for part in parts)


def literal(text: str) -> str:
    """A Spark SQL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
