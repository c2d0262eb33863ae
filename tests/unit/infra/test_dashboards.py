"""The dashboards' files are what the code makes, and ask for metrics that there are."""

import json
import re

import pytest

from infra.dashboards.__main__ import FOLDER, document
from infra.dashboards.panels import DASHBOARDS, Dashboard
from pipelines.metrics.declared import declared


@pytest.mark.parametrize("shown", DASHBOARDS, ids=lambda shown: shown.uid)
def test_a_file_is_what_the_code_makes(shown: Dashboard) -> None:
    text = (FOLDER / f"{shown.uid}.json").read_text(encoding="utf-8")
    assert text == document(shown), "run `make reference`"
    assert {panel["title"] for panel in json.loads(text)["panels"]} == {panel.title for panel in shown.panels}


def test_there_is_no_other_file() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == {shown.uid for shown in DASHBOARDS}


def test_panels_ask_for_metrics_that_are_declared() -> None:
    queries = " ".join(query for shown in DASHBOARDS for panel in shown.panels for query in panel.queries.values())
    asked = set(re.findall(r"\b(?:lakehouse|lineage)_\w+", queries))
    assert len(asked) > 30
    assert asked - declared().keys() == set()
