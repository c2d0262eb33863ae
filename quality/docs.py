"""Docs: what checks have found, as the static site that Great Expectations calls Data Docs."""

import logging
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from quality.markup import escaped, inert, restored
from quality.validate import great_expectations, silent

SITE = "gx/uncommitted/data_docs/local_site"


@dataclass(frozen=True)
class Page:
    """One run of a table's checks; ``document``: of :class:`quality.validate.Validation`."""

    table: str
    snapshot_id: int
    started_at: datetime
    document: dict[str, Any]

    def result(self) -> Any:
        """Return the run as the package's own result, which has its name as ``run_id``.

        Not all that the package shows is escaped: none of the texts in it could be markup.
        """
        great_expectations()
        from great_expectations.core.expectation_validation_result import expectationSuiteValidationResultSchema
        from great_expectations.core.run_identifier import RunIdentifier

        logging.getLogger("great_expectations").setLevel(logging.ERROR)
        result = expectationSuiteValidationResultSchema.load(inert({**self.document, "suite_name": self.table}))
        # A name of digits alone would be taken for a time.
        result.meta["run_id"] = RunIdentifier(run_name=f"snapshot-{self.snapshot_id}", run_time=self.started_at)
        return result


def build(folder: Path, pages: Iterable[Page]) -> Path:
    """Write the site into ``folder``, which is replaced once it is whole, and give its first page. OSError."""
    with TemporaryDirectory(dir=_made(folder.parent), prefix=".docs-") as scratch:
        _build(Path(scratch), pages)
        if folder.exists():
            shutil.rmtree(folder)
        shutil.move(Path(scratch) / SITE, folder)
    return folder / "index.html"


def _build(scratch: Path, pages: Iterable[Page]) -> None:
    gx = great_expectations()
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    context = silent(gx.get_context(mode="file", project_root_dir=scratch))
    for page in pages:
        table, result = inert(page.table), page.result()
        suite = ExpectationSuiteIdentifier(name=table)
        context.validation_results_store.set(ValidationResultIdentifier(suite, result.meta["run_id"], table), result)
    context.build_data_docs()
    _escape(scratch / SITE)


def _escape(site: Path) -> None:
    """Bring back the texts of data, escaped in pages, and as they were in names of files."""
    for path in sorted(site.rglob("*"), reverse=True):
        if path.suffix == ".html" and path.is_file():
            path.write_text(escaped(path.read_text(encoding="utf-8")), encoding="utf-8")
        if restored(path.name) != path.name:
            path.rename(path.with_name(restored(path.name)))


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
