from typing import Any

import pytest
from open_data_contract_standard.model import CustomProperty, Role

from quality.audience import Audience, audiences
from quality.errors import ContractError

COLUMNS = {"id": None, "mail": "personal", "phone": "personal", "total": None}


def role(name: str = "restricted", access: str | None = "read", **said: Any) -> Role:
    properties = [CustomProperty(property=key, value=value) for key, value in said.items()]
    return Role(role=name, access=access, customProperties=properties)


def test_a_role_is_shown_what_it_is_shown_and_a_columns_own_word_wins() -> None:
    said = role(shows="all", protect={"personal": "drop", "mail": "hash"}, rows=" total > 0 ")
    assert audiences([said], COLUMNS) == (
        Audience("restricted", {"id": None, "mail": "hash", "total": None}, "total > 0"),
    )


def test_a_list_shows_those_in_the_contracts_order_and_none_takes_a_class_back() -> None:
    said = role(shows=["total", "mail", "id"], protect={"personal": "mask", "mail": "none"})
    assert audiences([said], COLUMNS) == (Audience("restricted", {"id": None, "mail": None, "total": None}),)


def test_other_roles_are_none_of_ours() -> None:
    assert audiences([Role(role="Data Owner", access="write"), role("auditor")], COLUMNS) == ()


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        (role("Data Owner", shows="all"), "a name of a-z"),
        (role(access="write", shows="all"), "access is 'write'"),
        (role(shows="most"), "neither all nor a list"),
        (role(shows=[]), "neither all nor a list"),
        (role(shows=["id", "nothing"]), "shows nothing, which the contract doesn't name"),
        (role(shows="all", protect=["mail"]), "not columns or classifications"),
        (role(shows="all", protect={"secret": "drop"}), "neither a column nor a classification"),
        (role(shows="all", protect={"mail": "encrypt"}), "'encrypt', not one of drop, hash, tokenise, mask, none"),
        (role(shows=["mail"], protect={"mail": "drop"}), "shown no column"),
        (role(shows="all", rows=" "), "not a condition"),
    ],
)
def test_what_cannot_be_meant_is_said(said: Role, wrong: str) -> None:
    with pytest.raises(ContractError, match=wrong) as caught:
        audiences([said], COLUMNS)
    assert "roles[0]" in str(caught.value)


def test_a_role_is_named_once() -> None:
    with pytest.raises(ContractError, match="restricted more than once"):
        audiences([role(shows="all"), role(shows=["id"])], COLUMNS)
