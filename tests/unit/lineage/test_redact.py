from typing import Any

import pytest

from lineage.redact import HIDDEN, redacted


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"database.password": "hunter2"}, {"database.password": HIDDEN}),
        ({"apiKey": "k", "api_key": "k", "aws.secret-access-key": "k"},
         {"apiKey": HIDDEN, "api_key": HIDDEN, "aws.secret-access-key": HIDDEN}),
        ({"sasl.jaas.config": "org… required username=u password=p;"}, {"sasl.jaas.config": HIDDEN}),
        ({"passwords": ["a", "b"]}, {"passwords": HIDDEN}),
        ({"token": {"type": "bearer", "value": "see below"}}, {"token": {"type": "bearer", "value": "see below"}}),
        ({"url": "http://user:secret@registry:8081/x"}, {"url": f"http://{HIDDEN}@registry:8081/x"}),
        ("jdbc:x?user=u&password=p&ssl=true", f"jdbc:x?user=u&password={HIDDEN}&ssl=true"),
        ([{"nested": {"db_password": "x"}}], [{"nested": {"db_password": HIDDEN}}]),
        ({"password": None, "passphrase": ""}, {"password": None, "passphrase": ""}),
    ],
)  # fmt: skip
def test_what_a_name_or_a_text_says_is_secret_is_hidden(given: Any, kept: Any) -> None:
    assert redacted(given) == kept


@pytest.mark.parametrize(
    "given",
    [
        {"schema": {"fields": [{"name": "password_hash", "type": "string"}]}},
        {"columnLineage": {"fields": {"token": {"inputFields": []}}}},
        {"url": "http://registry:8081/a:b@c", "namespace": "postgres://db:5432", "n": 3, "flag": True},
        {"documentation": {"description": "Who bought what, when: an order."}},
    ],
)
def test_names_of_columns_and_places_are_kept(given: Any) -> None:
    assert redacted(given) == given
