"""Withdraw the datasets that no contract shows a role any more: drop them, with their files."""

from collections.abc import Iterable, Iterator

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError

from pipelines.lake.properties import PUBLISHED_OF
from pipelines.publish.dataset import Dataset
from pipelines.publish.settings import PublishSettings


def open_catalog(settings: PublishSettings) -> Catalog:
    """Open the lake's catalog, which deletes a table's files itself. Raises what PyIceberg and requests raise."""
    return load_catalog("lake", type="rest", uri=str(settings.catalog_uri).rstrip("/"))


def withdraw(catalog: Catalog, source: str, shown: Iterable[Dataset]) -> Iterator[str]:
    """Drop the datasets of this source's tables that aren't among ``shown``; yield the name of each.

    Raises what PyIceberg and requests raise.
    """
    names = {dataset.name for dataset in shown}
    for namespace, *_ in catalog.list_namespaces():
        # ``<role>_<source>``, or the same and the source's schema.
        if f"_{source}_" not in f"{namespace}_":
            continue
        for identifier in catalog.list_tables(namespace):
            if identifier in names:
                continue
            try:
                if PUBLISHED_OF in catalog.load_table(identifier).properties:
                    catalog.purge_table(identifier)
                    yield ".".join(identifier)
            except NoSuchTableError:
                continue
