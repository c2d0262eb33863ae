"""Whether the connector may go on: what is seen of a source, and what is said of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.sources.base.capture import LogState
from services.capture.continuity import FILE, Mark, discontinuity, recall, remember

SOUND = LogState("7", ("b", "a"), written=500, has_slot=True, log_status="reserved", confirmed=300)
LAST = Mark(system="7", mark="b")


@pytest.mark.parametrize(
    ("source", "stored", "last", "said"),
    [
        pytest.param(SOUND, 300, LAST, None, id="as it was left"),
        pytest.param(SOUND, 450, Mark(system="7", mark="a"), None, id="a mark that was committed, and not remembered"),
        pytest.param(SOUND, 300, None, None, id="nothing is remembered"),
        pytest.param(replace(SOUND, has_slot=False), None, LAST, None, id="no position: the connector begins anew"),
        pytest.param(replace(SOUND, has_slot=False, confirmed=None), 300, LAST, "slot is gone", id="no slot"),
        pytest.param(replace(SOUND, log_status="lost"), 300, LAST, "fell too far behind", id="lost"),
        pytest.param(replace(SOUND, confirmed=301), 300, LAST, "slot was moved", id="moved"),
        pytest.param(replace(SOUND, marks=("x", None)), 300, LAST, "doesn't know the mark", id="an unknown mark"),
        pytest.param(replace(SOUND, marks=(None, None)), 300, LAST, "doesn't know the mark", id="no mark at all"),
        pytest.param(replace(SOUND, system="8"), 300, LAST, "another database cluster", id="another cluster"),
        pytest.param(replace(SOUND, written=299), 300, None, "log ends before", id="the log went back"),
    ],
)
def test_what_would_miss_changes_is_said(
    source: LogState, stored: int | None, last: Mark | None, said: str | None
) -> None:
    problem = discontinuity(source, stored, stored, last)
    if said is None:
        assert problem is None
    else:
        assert problem is not None
        assert said in problem
        assert "lakehouse resync --all" in problem


def test_a_position_that_moves_on_while_the_source_is_looked_at_is_sound() -> None:
    assert discontinuity(replace(SOUND, confirmed=490), 450, 510, LAST) is None


def test_the_runbook_is_named_and_there() -> None:
    for source in (replace(SOUND, has_slot=False), replace(SOUND, system="8")):
        page = (discontinuity(source, 300, 300, LAST) or "").rsplit("(", 1)[1].removesuffix(").")
        assert (Path(__file__).parents[4] / page).is_file()


def test_a_mark_is_remembered(tmp_path: Path) -> None:
    assert recall(tmp_path) is None
    remember(tmp_path, LAST)
    assert recall(tmp_path) == LAST
    (tmp_path / FILE).write_text("{")
    assert recall(tmp_path) is None
