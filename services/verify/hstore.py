"""An hstore is a set of pairs: PostgreSQL prints it in an order of its own, and the connector sends JSON in another."""

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_PAIR = f"({_QUOTED})=>({_QUOTED}|NULL)"


def pairs(text: str) -> str:
    """Return DuckDB's expression for the sorted pairs of the hstore ``text``.

    Either as PostgreSQL prints it or as JSON.
    """
    keys, values = (f"regexp_extract_all({text}, '{_PAIR}', {group}, 's')" for group in (1, 2))
    value = f"CASE WHEN p[2] <> 'NULL' THEN {_unquoted('p[2]')} END"
    printed = f"list_transform(list_zip({keys}, {values}), lambda p: {{'key': {_unquoted('p[1]')}, 'value': {value}}})"
    sent = f"map_entries(TRY_CAST(CAST({text} AS JSON) AS MAP(VARCHAR, VARCHAR)))"
    return (
        f"CASE WHEN {text} IS NULL THEN NULL WHEN starts_with({text}, '{{') THEN list_sort({sent})"
        f" ELSE list_sort({printed}) END"
    )


def _unquoted(text: str) -> str:
    return f"regexp_replace({text}[2:-2], '\\\\(.)', '\\1', 'gs')"
