"""When a dataset is due, by what the catalog tells; and what the service makes of how its worker ends."""

import fcntl
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Timer
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import SecretStr
from pyiceberg.exceptions import NoSuchTableError
from requests.exceptions import ConnectionError as NoAnswer

from pipelines.lake.properties import PUBLISHED_SNAPSHOT, PURGED
from pipelines.publish import __main__ as service
from pipelines.publish.due import Due
from pipelines.publish.shown import Shown
from quality.audience import Audience
from quality.contract import Column, Contract

ORDERS = Contract(("public", "orders"), "1", "active", (Column("id", key=1), Column("note")))
SHOWN = Shown(("shop", "orders"), ORDERS, Audience("restricted", {"id": None, "note": None}, None))
NAME = "restricted_shop.orders"


def table(snapshots: list[dict[str, str]], schema: int = 0, **properties: str) -> Any:
    """What of PyIceberg's table is looked at; snapshots are numbered from 1."""
    each = [
        SimpleNamespace(
            snapshot_id=n, parent_snapshot_id=n - 1 or None, summary=SimpleNamespace(additional_properties=said)
        )
        for n, said in enumerate(snapshots, start=1)
    ]
    metadata = SimpleNamespace(
        table_uuid="u", current_schema_id=schema, properties=properties,
        current_snapshot_id=len(each) or None,
    )  # fmt: skip
    return SimpleNamespace(
        metadata=metadata, current_snapshot=lambda: each[-1] if each else None,
        snapshot_by_id=lambda number: each[number - 1],
    )  # fmt: skip


@dataclass
class Lake:
    """A catalog of two tables, and a clock."""

    folder: Path
    of: Any = field(default_factory=lambda: table([{}, {}, {}]))
    dataset: Any = field(default_factory=lambda: table([{PUBLISHED_SNAPSHOT: "2"}, {PUBLISHED_SNAPSHOT: "3"}, {}]))
    now: float = 0.0

    def load_table(self, name: tuple[str, str]) -> Any:
        found = {("shop", "orders"): self.of, ("restricted_shop", "orders"): self.dataset}[name]
        if found is None:
            raise NoSuchTableError(".".join(name))
        return found

    def list_namespaces(self) -> list[tuple[str, ...]]:
        return []

    def due(self, fingerprint: str | None = None) -> Due:
        return Due(fingerprint, self.folder / "published.json", 600, lambda: self.now)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """One whose dataset is what its table is, and known to be."""
    lake = Lake(tmp_path)
    due = lake.due()
    due.succeeded(due.looks(lake, [SHOWN]))  # type: ignore[arg-type]
    return lake


def names(lake: Lake, due: Due | None = None, shown: Shown = SHOWN) -> list[str]:
    return list((due or lake.due()).looks(lake, [shown]))  # type: ignore[arg-type]


def test_what_is_up_to_date_is_not_due_for_a_process_that_comes_later_either(lake: Lake) -> None:
    assert names(lake) == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"of": table([{}, {}, {}, {}])}, id="the table has another snapshot"),
        pytest.param({"of": table([{}, {}, {}], schema=1)}, id="the table has other columns"),
        pytest.param({"of": table([{}, {}, {}], **{PURGED: "1"})}, id="the table was purged"),
        pytest.param({"dataset": None}, id="the dataset is gone"),
        pytest.param({"dataset": table([{}])}, id="the dataset is of no snapshot"),
    ],
)
def test_a_dataset_is_due_when_its_table_or_itself_has_changed(lake: Lake, change: dict[str, Any]) -> None:
    assert names(replace(lake, **change)) == [NAME]


def test_a_dataset_is_due_when_something_else_is_to_be_shown(lake: Lake) -> None:
    shown = replace(SHOWN, audience=Audience("restricted", {"id": None, "note": "mask"}, None))
    assert names(lake, shown=shown) == [NAME]
    assert names(lake, shown=replace(SHOWN, audience=replace(SHOWN.audience, rows="id > 1"))) == [NAME]
    assert names(lake, lake.due("another key")) == [NAME]


@pytest.mark.parametrize("of", [None, table([])], ids=["no table", "no rows"])
def test_a_table_that_is_not_there_yet_is_waited_for(tmp_path: Path, of: Any) -> None:
    assert names(Lake(tmp_path, of, None)) == []


def test_what_failed_is_tried_again_when_it_has_changed_and_after_a_while(lake: Lake) -> None:
    lake.of, due = table([{}, {}, {}, {}]), lake.due()
    due.failed(due.looks(lake, [SHOWN]))  # type: ignore[arg-type]
    assert names(lake, due) == []
    lake.of = table([{}, {}, {}, {}, {}])
    assert names(lake, due) == [NAME]
    lake.of, lake.now = table([{}, {}, {}, {}]), 600.0
    assert names(lake, due) == [NAME]


class Log:
    """Keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def error(self, event: str, **said: Any) -> None:
        self.lines.append((event, said))

    info = error


def publisher(lake: Lake, monkeypatch: pytest.MonkeyPatch, script: str) -> tuple[service.Publisher, Log]:
    """A service whose worker is a line of Python; ``stop`` is set when it has looked once more after that."""
    log, settings = (
        Log(),
        SimpleNamespace(
            publish_seconds=0.01, state_dir=lake.folder, driver_lock=lake.folder / "driver.lock", source_name="shop"
        ),
    )
    monkeypatch.setattr(service, "open_catalog", lambda _: lake)
    worker = (sys.executable, "-c", script)
    return service.Publisher(settings, [SHOWN], frozenset({"shop"}), lake.due(), Event(), log, worker), log  # type: ignore[arg-type]


def test_a_worker_is_started_only_for_what_is_due(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = lake.folder / "ran"
    made, _ = publisher(lake, monkeypatch, f"open({str(ran)!r}, 'a').write('x')")
    made._publish()
    assert not ran.exists()
    lake.of, lake.dataset = table([{}, {}, {}], schema=1), table([{PUBLISHED_SNAPSHOT: "3"}])
    made._publish()
    made._publish()
    assert ran.read_text() == "x"


def test_a_worker_that_failed_is_told_of_and_not_started_again_at_once(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.of = table([{}, {}, {}, {}])
    made, log = publisher(lake, monkeypatch, "raise SystemExit(3)")
    made._publish()
    made._publish()
    assert [(name, said["exit_code"]) for name, said in log.lines] == [("not_all_published", 3)]


def test_a_worker_ends_with_the_service(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.of = table([{}, {}, {}, {}])
    made, log = publisher(lake, monkeypatch, "import time; time.sleep(600)")
    Timer(0.2, made.stop.set).start()
    made.run()
    assert log.lines == []
    assert names(lake) == [NAME]


def test_nothing_is_withdrawn_while_an_earlier_worker_could_still_commit(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = publisher(lake, monkeypatch, "")
    with made.settings.driver_lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not made._alone()
    assert made._alone()


def test_a_catalog_that_does_not_answer_is_told_of_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    made, log = publisher(lake, monkeypatch, "")

    def none(_: object) -> None:
        raise NoAnswer

    monkeypatch.setattr(service, "open_catalog", none)
    made._publish()
    made._publish()
    assert [name for name, _ in log.lines] == ["not_looked"]


def test_without_the_secret_that_a_contract_needs_it_does_not_start() -> None:
    from pipelines.protection.crypto import keys_for
    from quality.errors import ContractError

    contract = Contract(("public", "t"), "1", "active", (Column("id", key=1), Column("mail", protection="hash")))
    with pytest.raises(ContractError, match="PROTECTION_KEY"):
        keys_for([contract], None)
    assert keys_for([contract], SecretStr("k" * 40)) is not None
