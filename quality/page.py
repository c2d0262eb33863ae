"""One run of a table's checks as Great Expectations' own page of its Data Docs, without scripts and other hosts.

`python -m quality.page` reads a :class:`quality.docs.Page` from its standard input, as JSON, and prints it. It is a
process of its own, because the package takes 250 MiB and five seconds to be imported.
"""

import json
import sys
from datetime import datetime
from typing import Any

from quality.docs import Page
from quality.markup import cleaned
from quality.validate import great_expectations


def render(page: Page) -> str:
    """Return the page's body, as markup."""
    great_expectations()
    from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
    from great_expectations.render.view.view import DefaultJinjaPageView

    found = ValidationResultsPageRenderer(run_info_at_end=True).render(page.result())
    view: Any = DefaultJinjaPageView()
    return cleaned(view.render(found))


def main() -> None:
    """Print the page that standard input asks for."""
    asked = json.load(sys.stdin)
    sys.stdout.write(render(Page(**{**asked, "started_at": datetime.fromisoformat(asked["started_at"])})))


if __name__ == "__main__":
    main()
