"""What is told of PostgreSQL's errors."""

import psycopg
import pytest

from services.postgres import said


def test_of_a_server_that_does_not_answer_everything_is_told_in_one_line() -> None:
    with pytest.raises(psycopg.OperationalError) as raised:
        psycopg.connect("host=127.0.0.1 port=1 user=nobody password=secret-word connect_timeout=5")
    told = said(raised.value)
    assert "refused" in told
    assert told == " ".join(told.split())
    assert "secret-word" not in told
