"""Contract files: what they promise, and what is said of one that can't be used."""

from pathlib import Path

import pytest

from quality import odcs
from quality.contract import Column, Rule
from quality.errors import ContractError
from quality.protection import masked

HEAD = """\
apiVersion: v3.2.0
kind: DataContract
id: shop-public-orders
version: 1.2.0
status: active
"""
TEAM = """\
team:
  members:
    - {username: order-team, role: Owner}
    - {username: data-office, role: steward}
"""
SCHEMA = """\
schema:
  - name: orders
    physicalName: public.orders
    description: Orders, as customers place them.
    properties:
      - {name: order_id, physicalType: bigint, logicalType: integer, primaryKey: true, primaryKeyPosition: 1}
      - name: total
        physicalType: numeric(14,2)
        logicalType: number
        required: true
        logicalTypeOptions: {minimum: 0, exclusiveMaximum: 1000000}
        customProperties: [{property: onViolation, value: reject}]
      - name: status
        logicalType: string
        enum: [{value: placed}, {value: paid}]
      - name: note
        logicalType: string
        classification: personal
        logicalTypeOptions: {maxLength: 500, pattern: "^[^<]*$", format: password}
        customProperties: [{property: onViolation, value: null}]
    quality:
      - {type: library, metric: rowCount, mustBeGreaterThan: 0}
      - type: custom
        engine: lakehouse
        name: paid orders cost something
        implementation: status <> 'paid' OR total > 0
        customProperties: [{property: onViolation, value: reject}]
"""
LEVELS = """\
slaProperties:
  - {property: freshness, value: 30, unit: s}
  - {property: retention, value: 2, unit: y}
"""


def written(folder: Path, text: str, name: str = "orders.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_what_a_contract_promises(tmp_path: Path) -> None:
    written(tmp_path, HEAD + TEAM + SCHEMA + LEVELS)
    (contract,) = odcs.load(tmp_path).values()
    assert (contract.source_name, contract.version, contract.status) == ("public.orders", "1.2.0", "active")
    assert (contract.owner, contract.steward) == ("order-team", "data-office")
    assert (contract.freshness_seconds, contract.retention_seconds) == (30, 2 * 365 * 86400)
    assert contract.key == ("order_id",)
    assert contract.columns == (
        Column("order_id", "bigint", "integer", key=1, required=True),
        Column(
            "total", "numeric(14,2)", "number", required=True, options={"minimum": 0, "exclusiveMaximum": 1000000},
            on_violation="reject",
        ),
        Column("status", logical="string", allowed=("placed", "paid")),
        Column(
            "note", logical="string", options={"maxLength": 500, "pattern": "^[^<]*$"}, classification="personal",
            on_violation="null",
        ),
    )  # fmt: skip
    expected = Rule("paid orders cost something", "status <> 'paid' OR total > 0", "reject")
    assert contract.rules == (expected,), "a check that isn't of one row doesn't concern the stream"


def column(said: str = "", more: str = "") -> str:
    """A contract of one column with these fields besides its name and type, and ``more`` after it."""
    return f"{HEAD}schema:\n  - name: public.t\n    properties:\n      - {{name: a, logicalType: string{said}}}\n{more}"


def rule(said: str) -> str:
    return column(more=f"    quality:\n      - {{type: custom, engine: lakehouse, implementation: a > 0{said}}}\n")


def acting(word: str) -> str:
    return f", customProperties: [{{property: onViolation, value: {word}}}]"


def protecting(word: str) -> str:
    return f", customProperties: [{{property: protection, value: {word}}}]"


def by_class(said: str) -> str:
    return f"    customProperties: [{{property: protect, value: {said}}}]\n"


BAD = [
    ("not YAML", "a: [", "not YAML"),
    ("nothing", "", "the file has no fields"),
    ("no version", HEAD.replace("version: 1.2.0\n", "") + SCHEMA, "'version' is a required property"),
    ("another standard", HEAD.replace("v3.2.0", "v9") + SCHEMA, "apiVersion: 'v9' is not one of"),
    ("an unknown field", HEAD + SCHEMA + "ownr: me\n", "'ownr' was unexpected"),
    ("an unknown field of a column", column(", requird: true"), "'requird' was unexpected"),
    ("a column without a type", column().replace(", logicalType: string", ""),
     "schema[0].properties[0] (a): it has no logicalType, nor a physicalType that tells it"),
    ("an older standard", HEAD.replace("v3.2.0", "v2.2.2") + SCHEMA, "apiVersion: v2.2.2 isn't supported, only v3"),
    ("no table", HEAD, "schema has 0 tables"),
    ("no schema in the name", column().replace("public.t", "t"), "write SCHEMA.TABLE"),
    ("no columns", f"{HEAD}schema:\n  - name: public.t\n", "a table has columns"),
    ("a column twice", column(more="      - {name: a, logicalType: date}\n"), "a more than once"),
    ("an unknown action", column(acting("drop")),
     "schema[0].properties[0] (a): onViolation is 'drop', not one of reject, null, warn"),
    ("a required value nulled", column(f", required: true{acting('null')}"),
     "which a column that is required can't be"),
    ("a broken pattern", column(", logicalTypeOptions: {pattern: '('}"), "isn't a regular expression"),
    ("a nulling pattern that looks ahead", column(", logicalTypeOptions: {pattern: '(?=a)b'}" + acting("null")),
     "looks around or back"),
    ("an unknown protection", column(protecting("hashed")),
     "schema[0].properties[0] (a): protection is 'hashed', not one of drop, hash, tokenise, mask, encrypt, none"),
    ("a protection that isn't said", column(protecting("null")), "protection is None, not one of drop"),
    ("a protected key", column(f", primaryKey: true{protecting('hash')}"), "which a column of the key can't have"),
    ("protected lists", column(protecting("hash")).replace("string", "array"), "values of type array have no text"),
    ("protected fractions", column(f", physicalType: real{protecting('mask')}"), "values of type real have no text"),
    ("encrypted without a key", column(protecting("encrypt")), "the contract names no primaryKey"),
    ("an unknown protection of a class", column(more=by_class("{pii: hashed}")),
     "protect of pii: protection is 'hashed', not one of drop"),
    ("a class without a protection", column(more=by_class("hash")), "not classifications with protections"),
    ("a key protected by its class", column(", primaryKey: true, classification: pii", by_class("{pii: drop}")),
     "which a column of the key can't have"),
    ("a rule named as a column's would be", rule(", name: a.required"), "a rule's name has no dot"),
    ("a length that is none", column(", logicalTypeOptions: {maxLength: many}"),
     "schema[0].properties[0].logicalTypeOptions.maxLength: 'many' is not of type 'integer'"),
    ("a bound of a text", column(", logicalTypeOptions: {minimum: 1}"), "'minimum' was unexpected"),
    ("a rule without a name", rule(""), "a rule for lakehouse has a name"),
    ("a rule that nulls", rule(f", name: r{acting('null')}"), "but of which column"),
    ("a unit nobody knows", HEAD + SCHEMA + LEVELS.replace("unit: s", "unit: fortnights"),
     "freshness is 30 fortnights"),
]  # fmt: skip


@pytest.mark.parametrize(("label", "text", "said"), BAD, ids=[case[0] for case in BAD])
def test_a_contract_that_cant_be_used_is_named_with_the_place(tmp_path: Path, label: str, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ContractError) as raised:
        odcs.load(tmp_path)
    assert str(raised.value).startswith(f"{path}: ")
    assert said in str(raised.value)


# Parts of the standard that say nothing which is kept here.
UNREAD = """\
servers:
  - {server: warehouse, type: postgresql, host: localhost, port: 5432, database: shop, schema: public}
price: {priceAmount: 9.95, priceCurrency: USD, priceUnit: megabyte}
support:
  - {channel: orders-help, url: "https://example.org/help"}
"""


@pytest.mark.parametrize(("standard", "team"), [
    ("v3.1.0", TEAM.replace("role: Owner", "role: Owner, dateIn: 2026-02-20")),
    ("v3.0.2", TEAM.replace("role: Owner", "role: Owner, dateIn: 2026-02-20")),
    ("v3.0.2", "team:\n  - {username: order-team, role: Owner, dateIn: 2026-02-20}\n"),
])  # fmt: skip
def test_a_file_as_people_write_it(tmp_path: Path, standard: str, team: str) -> None:
    head = HEAD.replace("version: 1.2.0", "version: 1.10").replace("id: shop-public-orders", "id: 42")
    head = head.replace("v3.2.0", standard) + UNREAD
    contract = odcs.read(written(tmp_path, f"{head}contractCreatedTs: 2022-11-15T02:59:43Z\n{team}{SCHEMA}"))
    assert (contract.version, contract.owner) == ("1.10", "order-team")


@pytest.mark.parametrize(("physical", "logical"), [
    ("bigint", "integer"), ("INT4", "integer"), ("numeric(14,2)", "number"), ("double precision", "number"),
    ("boolean", "boolean"), ("date", "date"), ("timestamp with time zone", "timestamp"), ("timestamptz", "timestamp"),
    ("time", "time"), ("interval", "string"), ("text[]", "array"), ("varchar(20)", "string"), ("jsonb", "string"),
    ("mood", "string"),
])  # fmt: skip
def test_a_physical_type_tells_the_logical_one(tmp_path: Path, physical: str, logical: str) -> None:
    text = column().replace("logicalType: string", f"physicalType: '{physical}'")
    (found,) = odcs.read(written(tmp_path, text)).columns
    assert (found.physical, found.logical) == (physical, logical)


@pytest.mark.parametrize(("said", "more", "protection"), [
    (protecting("mask"), "", "mask"),
    (protecting("drop").replace("string", "array"), "", "drop"),
    (", classification: pii", by_class("{pii: hash, secret: drop}"), "hash"),
    (", classification: pii" + protecting("drop"), by_class("{pii: hash}"), "drop"),
    (", classification: pii" + protecting("none"), by_class("{pii: hash}"), None),
    (", primaryKey: true, classification: pii" + protecting("none"), by_class("{pii: hash}"), None),
    (", classification: other", by_class("{pii: hash}"), None),
])  # fmt: skip
def test_what_is_protected(tmp_path: Path, said: str, more: str, protection: str | None) -> None:
    contract = odcs.read(written(tmp_path, column(said, more)))
    assert contract.protected == ({} if protection is None else {"a": protection})


@pytest.mark.parametrize(("text", "hint"), [
    ("ada@example.org", "***@example.org"), ("a@b@c", "***"), ("@example.org", "***.org"), ("ada@", "***"),
    ("", "***"), ("12345678", "***"), ("123456789", "***6789"), ("Gräfin 🦊🦊🦊", "*** 🦊🦊🦊"),
])  # fmt: skip
def test_masks(text: str, hint: str) -> None:
    assert masked(text) == hint


def test_a_table_has_one_contract(tmp_path: Path) -> None:
    first, second = (written(tmp_path, HEAD + SCHEMA, name) for name in ("a.yaml", "b.yml"))
    written(tmp_path, "not a contract", "notes.txt")
    with pytest.raises(ContractError, match="Keep one of the two") as raised:
        odcs.load(tmp_path)
    assert str(first) in str(raised.value)
    assert str(second) in str(raised.value)


def test_the_contracts_that_come_with_the_platform_can_be_used() -> None:
    assert odcs.load().keys() == {tuple(path.stem.split(".")) for path in odcs.files_in(odcs.DIRECTORY)}
