"""One run of a table's checks as Great Expectations' own page of its Data Docs, without scripts and other hosts.

`python -m quality.page` reads what :func:`render` takes from its standard input, as JSON, and prints the page. It is a
process of its own, because the package takes 250 MiB and five seconds to be imported.
"""

import json
import logging
import sys
from datetime import datetime
from typing import Any

from quality.markup import cleaned, inert
from quality.validate import great_expectations


def render(table: str, snapshot_id: int, started_at: datetime, document: dict[str, Any]) -> str:
    """Return the page's body, as markup. ``document``: of :class:`quality.validate.Validation`.

    Great Expectations doesn't escape all names that it shows, so it is given none that could be markup.
    """
    great_expectations()
    from great_expectations.core.expectation_validation_result import expectationSuiteValidationResultSchema
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
    from great_expectations.render.view.view import DefaultJinjaPageView

    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    result = expectationSuiteValidationResultSchema.load(inert({**document, "suite_name": table}))
    result.meta["run_id"] = RunIdentifier(run_name=f"snapshot-{snapshot_id}", run_time=started_at)
    found = ValidationResultsPageRenderer(run_info_at_end=True).render(result)
    view: Any = DefaultJinjaPageView()
    return cleaned(view.render(found))


def main() -> None:
    """Print the page that standard input asks for."""
    asked = json.load(sys.stdin)
    sys.stdout.write(render(
        asked["table"], asked["snapshot_id"], datetime.fromisoformat(asked["started_at"]), asked["document"]
    ))  # fmt: skip


if __name__ == "__main__":
    main()
