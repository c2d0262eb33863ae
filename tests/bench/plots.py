"""Plots as SVG, drawn here: bars and lines are all that is needed."""

from tests.bench.results import Results


def plots(results: Results) -> dict[str, str]:
    """Name to SVG."""
    return {}
