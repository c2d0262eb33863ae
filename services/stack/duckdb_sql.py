"""The one place where a name or a text becomes part of DuckDB's SQL."""


def quote(name: str) -> str:
    """Return an identifier. Any name is safe; ValueError on an empty one."""
    if not name:
        raise ValueError("an identifier can't be empty")
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text literal."""
    return "'" + text.replace("'", "''") + "'"
