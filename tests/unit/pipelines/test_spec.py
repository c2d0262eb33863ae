"""Spec files: what is said in them, and what is wrong in them."""

from pathlib import Path

import pytest

from pipelines import spec


def _write(directory: Path, **files: str) -> Path:
    for name, text in files.items():
        (directory / f"{name}.yaml").write_text(text, encoding="utf-8")
    return directory


def test_a_tables_words_go_before_the_defaults(tmp_path: Path) -> None:
    specs = spec.load(_write(
        tmp_path, defaults="schema_changes: {drop: freeze, add: discard_value}",
        orders="table: public.orders\nschema_changes: {add: evolve}",
    ))  # fmt: skip
    assert specs.schema_policy("public", "orders") == spec.SchemaPolicy(drop="freeze", add="evolve")
    assert specs.schema_policy("public", "other") == spec.SchemaPolicy(drop="freeze", add="discard_value")


def test_the_specs_of_this_repository_follow_everything() -> None:
    assert spec.load().schema_policy("public", "orders") == spec.SchemaPolicy()


BROKEN = [
    ("table: public.a\nschema_change: {}", r"orders.yaml: unknown key schema_change \(is schema_changes meant\?\)"),
    ("table: public.a\nschema_changes: {ad: evolve}", r"unknown key schema_changes.ad \(is add meant\?\)"),
    ("table: public.a\nschema_changes: {add: ignore}", "schema_changes.add is 'ignore', not one of evolve, freeze"),
    ("table: public.a\nschema_changes: {key: discard_row}", "schema_changes.key is 'discard_row', not one of evolve"),
    ("schema_changes: {}", "table: Field required"),
    ("table: [unclosed", "can't be read"),
    ("", "the file"),
]


@pytest.mark.parametrize(("text", "message"), BROKEN)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(spec.SpecError, match=message):
        spec.load(_write(tmp_path, orders=text))


def test_a_table_has_one_spec(tmp_path: Path) -> None:
    with pytest.raises(spec.SpecError, match=r"public.orders has a spec already, .*a.yaml"):
        spec.load(_write(tmp_path, a="table: public.orders", b="table: public.orders"))
