"""A contract beside its table: what is made of the source promises what the source says, and each change is told."""

from dataclasses import replace

import pytest

from pipelines.sources.base.tables import DescribedColumn, DescribedTable
from quality import odcs
from quality.contract import Column, Contract, contract_of
from services.operations.contracts.diff import Difference, differences
from services.operations.contracts.starter import starter

SOURCE = DescribedTable(
    "public", "orders",
    (
        DescribedColumn("line", "integer", "integer", True, False, 2),
        DescribedColumn("id", "bigint", "integer", True, False, 1),
        DescribedColumn("mail", "text", "string", True, True, 0, comment="Where the bill goes."),
        DescribedColumn("status", "order_status", "string", False, False, 0, ("placed", "paid")),
        DescribedColumn("total", "numeric(14,2)", "number", False, False, 0),
    ),
    "What was ordered.", (("positive", "(total > 0)"),),
)  # fmt: skip
LAKE = {"line": "int", "id": "long", "mail": "string", "status": "string", "total": "decimal(14, 2)", "_lsn": "long"}


def protecting(**how: object) -> Contract:
    columns = tuple(replace(c, protection=how.get(c.name)) for c in contract().columns)
    return replace(contract(), columns=columns)


PROTECTED = [
    ("as it shall be", {"mail": "hash"}, {"mail": "hash"}, []),
    ("not yet", {"mail": "hash"}, {},
     ["lake, mail: its rows have it as in the source, and it shall be hash: `lakehouse resync public.orders`"]),
    ("otherwise", {"mail": "hash"}, {"mail": "mask"},
     ["lake, mail: its rows have it mask, and it shall be hash: `lakehouse resync public.orders`"]),
    ("no more", {}, {"mail": "hash"},
     ["lake, mail: its rows have it hash, and it shall be as in the source: `lakehouse resync public.orders`"]),
    ("of another type", {"total": "hash"}, {"total": "hash"},
     ["lake, total: it is decimal(14, 2), not the text that is protected"]),
    ("dropped", {"total": "drop"}, {"total": "drop"}, []),
]  # fmt: skip


@pytest.mark.parametrize(("label", "how", "has", "said"), PROTECTED, ids=[case[0] for case in PROTECTED])
def test_what_is_protected(label: str, how: dict[str, str], has: dict[str, str], said: list[str]) -> None:
    assert list(map(str, differences(protecting(**how), SOURCE, LAKE, has))) == said


def test_a_number_that_is_protected_is_text_in_the_lake() -> None:
    there = {**LAKE, "total": "string"}
    assert list(differences(protecting(total="tokenise"), SOURCE, there, {"total": "tokenise"})) == []


def test_a_source_that_has_fractions_now_cannot_be_protected() -> None:
    source = changed("total", declared="double precision")
    found = [str(each) for each in differences(protecting(total="hash"), source, LAKE, {"total": "hash"})]
    assert any("have no text that every engine writes alike" in each for each in found)


def contract() -> Contract:
    return contract_of(odcs.parse(starter("shop", SOURCE, 10.0).to_yaml()))


def changed(name: str, **changes: object) -> DescribedTable:
    return replace(SOURCE, columns=tuple(replace(c, **changes) if c.name == name else c for c in SOURCE.columns))


def test_a_starter_is_a_valid_contract_that_the_source_keeps() -> None:
    found = contract()
    assert (found.source_name, found.key, found.freshness_seconds) == ("public.orders", ("id", "line"), 10)
    assert found.column("mail") == Column(
        "mail", "text", "string", required=True, unique=True, description="Where the bill goes."
    )
    assert found.column("status").allowed == ("placed", "paid")
    assert [(rule.name, rule.condition) for rule in found.rules] == [("positive", "(total > 0)")]
    assert list(differences(found, SOURCE, LAKE)) == []


DIFFERENCES = [
    ("a column is gone", replace(SOURCE, columns=SOURCE.columns[:-1]), LAKE,
     "source, total: there is no such column", True),
    ("a column is new", replace(SOURCE, columns=(*SOURCE.columns, replace(SOURCE.columns[-1], name="x"))), LAKE,
     "source, x: the contract doesn't name it (numeric(14,2))", False),
    ("another type", changed("total", declared="numeric(20,4)"), LAKE,
     "source, total: it is numeric(20,4), not numeric(14,2)", True),
    ("another key", changed("line", key=0), LAKE, "source: the key is (id), not (id, line)", True),
    ("a value that isn't allowed", changed("status", labels=("placed", "paid", "lost")), LAKE,
     "source, status: it may be lost there, too", True),
    ("it may be null now", changed("mail", required=False), LAKE,
     "source, mail: it is required, and may be null there", False),
    ("it is never null now", changed("total", required=True), LAKE,
     "source, total: it is never null there, which the contract doesn't say", False),
    ("nothing sees to it that it is unique", changed("mail", unique=False), LAKE,
     "source, mail: it is unique, and nothing there sees to it", False),
    ("no such table", None, LAKE, "source: there is no such table", True),
    ("not in the lake yet", SOURCE, None, "lake: there is no such table yet", False),
    ("a column the lake lacks", SOURCE, {k: v for k, v in LAKE.items() if k != "mail"},
     "lake, mail: there is no such column", True),
    ("another type in the lake", SOURCE, LAKE | {"total": "boolean"}, "lake, total: it is boolean, not number", True),
    ("a column only the lake has", SOURCE, LAKE | {"old": "int"}, "lake, old: the contract doesn't name it", False),
    ("a column that isn't published", changed("total", generated=True),
     {k: v for k, v in LAKE.items() if k != "total"},
     "lake, total: PostgreSQL doesn't publish generated columns", True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("label", "source", "lake", "said", "breaking"), DIFFERENCES, ids=[case[0] for case in DIFFERENCES]
)
def test_each_difference_is_told(
    label: str, source: DescribedTable | None, lake: dict[str, str] | None, said: str, breaking: bool
) -> None:
    found = list(differences(contract(), source, lake))
    assert [(str(each), each.breaking) for each in found] == [(said, breaking)]
    assert isinstance(found[0], Difference)
