"""What explains a difference: labelled facts."""

import pytest

from services.verify.explanation import Facts, explain

CASES: list[tuple[str, Facts, list[tuple[str, str]]]] = [
    ("nothing is known", Facts(), [("unexplained", "no dead letter")]),
    ("no open letter", Facts(letters={}), [("unexplained", "no dead letter")]),
    ("a dead letter", Facts(letters={"not_avro": 1}), [("dead letters", "1 open dead letter of it: 1 not_avro")]),
    (
        "letters of several reasons",
        Facts(letters={"parked": 1200, "not_avro": 1}),
        [("dead letters", "1,201 open dead letters of it: 1 not_avro, 1,200 parked")],
    ),
    ("held", Facts(held="its key changed"), [("held", "the mirror holds it: its key changed")]),
    (
        "read again",
        Facts(rereads=("its type was computed anew", "its type was computed anew", "a partition was dropped")),
        [("read again", "again: its type was computed anew; a partition was dropped")],
    ),
    ("resynced", Facts(resync=True), [("resync", "has begun and hasn't ended")]),
    (
        "several at once",
        Facts(letters={"decode": 2}, held="a lock", rereads=("why",), resync=True),
        [("held", "a lock"), ("resync", "begun"), ("read again", "why"), ("dead letters", "2 decode")],
    ),
]


@pytest.mark.parametrize(("label", "facts", "expected"), CASES, ids=[case[0] for case in CASES])
def test_what_is_known_explains_a_difference(label: str, facts: Facts, expected: list[tuple[str, str]]) -> None:
    found = explain("public.t", "shop.public.t", facts)
    assert [each.cause for each in found] == [cause for cause, _ in expected]
    for each, (_, part) in zip(found, expected, strict=True):
        assert part in each.text


def test_every_explanation_says_what_to_do() -> None:
    (letters,) = explain("public.t", "shop.public.t", Facts(letters={"decode": 2}))
    assert str(letters) == "2 open dead letters of it: 2 decode; `lakehouse dlq list --topic shop.public.t`"
    (unexplained,) = explain("public.t", "shop.public.t", Facts())
    assert "lake-differs.md" in unexplained.next
    assert "`lakehouse heal public.t`" in unexplained.next
