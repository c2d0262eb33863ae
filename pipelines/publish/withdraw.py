"""Withdraw the datasets that no contract shows a role any more: drop them, with their files."""

from collections.abc import Collection, Iterable, Iterator

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError

from pipelines.lake.properties import PUBLISHED_OF
from pipelines.publish.settings import PublishSettings
from pipelines.publish.shown import Shown


def open_catalog(settings: PublishSettings) -> Catalog:
    """The lake's catalog, which deletes a table's files itself. Raises what PyIceberg and requests raise."""
    # It opens no file, and PyArrow, which would, takes 50 MB.
    files = {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}
    return load_catalog("lake", type="rest", uri=str(settings.catalog_uri).rstrip("/"), **files)


def withdraw(catalog: Catalog, namespaces: Collection[str], shown: Iterable[Shown]) -> Iterator[str]:
    """Drop the datasets of tables in these namespaces that aren't among ``shown``; the name of each.

    Raises what PyIceberg and requests raise.
    """
    names = {dataset.name for dataset in shown}
    for namespace, *_ in catalog.list_namespaces():
        # ``<role>_<namespace>``; a source's schemas have its name before theirs.
        if not any(f"_{each}_" in f"{namespace}_" for each in namespaces):
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
