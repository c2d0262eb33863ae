"""What a PostgreSQL source makes of its connector's stored offset, and what it tells the connector."""

from dataclasses import replace

import pytest
from pydantic import SecretStr

from pipelines.sources.base.capture import ConnectorOptions, LeftOut
from pipelines.sources.base.database import SourceAddress
from pipelines.sources.base.errors import SourceUnavailable
from pipelines.sources.kinds import source_administrator, source_database

ADDRESS = SourceAddress("shop", ("public",), "127.0.0.1", 1, "shop", "nobody", SecretStr("secret-word"), "tests")
OPTIONS = ConnectorOptions("shop", SecretStr("secret-word"), "http://registry", "__unavailable__", 4)
ADMINISTRATOR = source_administrator(ADDRESS, OPTIONS)


def test_the_position_is_the_newest_one_stored() -> None:
    assert ADMINISTRATOR.stored_position({"lsn": 5, "lsn_proc": 7, "lsn_commit": None, "txId": 900}) == 7
    assert ADMINISTRATOR.stored_position({}) is None
    assert ADMINISTRATOR.stored_position(None) is None


def test_the_connector_is_told_what_to_leave_out_and_no_secret() -> None:
    nothing = LeftOut(frozenset(), frozenset(), frozenset())
    excluded = replace(nothing, tables=frozenset({"public.b"}), partitions=frozenset({"public.a"}))
    config = ADMINISTRATOR.connector_config(excluded)
    own = r"(?-i)lakehouse\.exclusions,(?-i)lakehouse\.rereads,(?-i)lakehouse\.seen"
    assert config["table.exclude.list"] == rf"{own},(?-i)public\.a,(?-i)public\.b"
    assert "secret-word" not in str(config)
    before = ADMINISTRATOR.connector_config(nothing)
    assert ADMINISTRATOR.newly_read(["public.a", "public.c"], config, before) == {"public.a"}


def test_of_a_server_that_does_not_answer_everything_is_told_in_one_line() -> None:
    with pytest.raises(SourceUnavailable) as raised:
        source_database(ADDRESS).connect()
    told = raised.value.sentence
    assert raised.value.kind == "PostgreSQL"
    assert "refused" in told
    assert told == " ".join(told.split())
    assert "secret-word" not in str(raised.value)
