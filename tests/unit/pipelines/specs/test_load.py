"""Spec files: what is said in them, and what is wrong in them."""

from pathlib import Path

import pytest

from pipelines.specs.load import SchemaPolicy, SpecError, load_specs
from pipelines.specs.upkeep import Upkeep


def _write(directory: Path, **files: str) -> Path:
    for name, text in files.items():
        (directory / f"{name}.yaml").write_text(text, encoding="utf-8")
    return directory


def test_a_tables_words_go_before_the_defaults(tmp_path: Path) -> None:
    specs = load_specs(_write(
        tmp_path, defaults="schema_changes: {drop: freeze, add: discard_value}",
        orders="table: public.orders\nschema_changes: {add: evolve}",
    ))  # fmt: skip
    assert specs.schema_policy("public", "orders") == SchemaPolicy(drop="freeze", add="evolve")
    assert specs.schema_policy("public", "other") == SchemaPolicy(drop="freeze", add="discard_value")


def test_so_does_how_it_is_kept_small(tmp_path: Path) -> None:
    specs = load_specs(_write(
        tmp_path, defaults="freshness_seconds: 60\nupkeep: {snapshots_days: 14, files: 30}",
        orders="table: public.orders\nupkeep: {files: 5}\nalerts: {snapshots: 7}\nfreshness_seconds: 5",
    ))  # fmt: skip
    assert specs.upkeep("public", "orders") == Upkeep(snapshots_days=14, files=5)
    assert specs.upkeep("public", "other") == Upkeep(snapshots_days=14, files=30)
    assert (specs.alerts("public", "orders").snapshots, specs.alerts("public", "other").snapshots) == (7, 1000)
    assert (specs.freshness("public", "orders"), specs.freshness("public", "other")) == (5, 60)
    assert specs.default_freshness == 60


def test_the_specs_of_this_repository_say_what_holds_without_them(tmp_path: Path) -> None:
    ours, none = load_specs(), load_specs(tmp_path)
    assert ours.schema_policy("public", "orders") == none.schema_policy("public", "orders") == SchemaPolicy()
    assert ours.upkeep("public", "orders") == none.upkeep("public", "orders") == Upkeep()
    assert ours.alerts("public", "orders") == none.alerts("public", "orders")
    assert ours.default_freshness == none.default_freshness == 5


BROKEN = [
    ("table: public.a\nschema_change: {}", r"orders.yaml: unknown key schema_change \(is schema_changes meant\?\)"),
    ("table: public.a\nschema_changes: {ad: evolve}", r"unknown key schema_changes.ad \(is add meant\?\)"),
    ("table: public.a\nschema_changes: {add: ignore}", "schema_changes.add is 'ignore', not one of evolve, freeze"),
    ("table: public.a\nschema_changes: {key: discard_row}", "schema_changes.key is 'discard_row', not one of evolve"),
    ("table: public.a\nupkeep: {file: 3}", r"unknown key upkeep.file \(is files meant\?\)"),
    ("table: public.a\nfreshness_seconds: 0.5", "freshness_seconds: Input should be greater than or equal to 1"),
    ("table: public.a\nupkeep: {files: 1}", "upkeep.files: Input should be greater than or equal to 2"),
    ("schema_changes: {}", "table: Field required"),
    ("table: [unclosed", "can't be read"),
    ("", "the file"),
]


@pytest.mark.parametrize(("text", "message"), BROKEN)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load_specs(_write(tmp_path, orders=text))


def test_a_table_has_one_spec(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"public.orders has a spec already, .*a.yaml"):
        load_specs(_write(tmp_path, a="table: public.orders", b="table: public.orders"))


CLICKS = "kind: events\ntable: events.clicks\ntopic: clicks\nevent_time: {column: at}\n"


def test_an_event_stream_has_a_spec_of_its_own_kind(tmp_path: Path) -> None:
    specs = load_specs(_write(tmp_path, clicks=f"{CLICKS}freshness_seconds: 60\nupkeep: {{files: 5}}"))
    (spec,) = specs.streams.values()
    assert (spec.name, spec.registry_subject) == (("events", "clicks"), "clicks-value")
    assert (specs.freshness("events", "clicks"), specs.upkeep("events", "clicks").files) == (60, 5)
    assert specs.freshness("events", "others") == 5


@pytest.mark.parametrize(
    ("said", "found"),
    [("90", 90), ("30 seconds", 30), ("1 minute", 60), ("1.5 hours", 5400), ("7 days", 604_800)],
)
def test_durations(tmp_path: Path, said: str, found: float) -> None:
    text = CLICKS.replace("{column: at}", f"{{column: at, earliest: {said}}}")
    assert load_specs(_write(tmp_path, clicks=text)).streams["events.clicks"].event_time.earliest == found


WRONG = [
    ("kind: event\ntable: a.b", "kind is 'event', not one of mirror, events"),
    (CLICKS.replace("events.clicks", "clicks"), "table: String should match pattern"),
    (f"{CLICKS}format: protobuf", "format is 'protobuf', not one of json, avro"),
    (f"{CLICKS}deduplicate: {{by: id, with: 1 day}}", r"unknown key deduplicate.with \(is within meant\?\)"),
    (f"{CLICKS}deduplicate: {{by: id, within: soon}}", "'soon' is no duration, such as 30 seconds"),
    (f"{CLICKS}columns: {{at: timestamptz}}\njson_schema: {{}}", "both say what the columns are"),
    (f"{CLICKS}format: avro\ncolumns: {{at: timestamptz}}", "Avro is read by the registry's schemas"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_what_is_wrong_of_a_stream_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load_specs(_write(tmp_path, clicks=text))
