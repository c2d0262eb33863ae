"""The catalog and the object store answer with errors, or do what they are asked and don't say so."""

from collections.abc import Iterator

import pytest

from tests.integration.stack import Stack, wait_until
from tests.integration.web_faults import WebFaults, web_faults

pytestmark = pytest.mark.process

COMMIT, LOAD = ("POST", "/tables/answered$"), ("GET", "/tables/answered(\\?|$)")
DATA, METADATA = ("PUT", "/answered/data/"), ("PUT", "/answered/metadata/.*avro")
READ = ("GET", "/answered/(data|metadata)/")
# Of which server which request is answered how (None: the connection is cut), whether it is done, and how often.
CASES = [
    ("catalog", COMMIT, None, True, 1), ("catalog", COMMIT, None, False, 1), ("catalog", COMMIT, 500, True, 1),
    ("catalog", COMMIT, 500, False, 1), ("catalog", COMMIT, 502, True, 1), ("catalog", COMMIT, 503, True, 1),
    ("catalog", COMMIT, 503, False, 5), ("catalog", COMMIT, 504, True, 1), ("catalog", COMMIT, 403, False, 1),
    ("catalog", COMMIT, 409, False, 1), ("catalog", COMMIT, 409, True, 1), ("catalog", LOAD, 500, False, 1),
    ("catalog", LOAD, 503, False, 20), ("catalog", LOAD, 403, False, 1), ("catalog", LOAD, None, False, 5),
    ("s3", DATA, 503, False, 20), ("s3", DATA, 500, True, 1), ("s3", DATA, 403, False, 1), ("s3", DATA, None, True, 1),
    ("s3", METADATA, 503, False, 20), ("s3", METADATA, 403, False, 1), ("s3", METADATA, None, True, 20),
    ("s3", READ, 503, False, 20), ("s3", READ, 403, False, 1), ("s3", READ, None, False, 20),
]  # fmt: skip


def _label(case: tuple[str, tuple[str, str], int | None, bool, int]) -> str:
    server, (method, path), status, done, times = case
    return f"{server} {method} {path.strip('$')} {status or 'cut'}{' done' * done} {times}"


@pytest.fixture(scope="module")
def web(stack: Stack) -> Iterator[dict[str, WebFaults]]:
    stack.sql(
        "CREATE TABLE answered (id bigint PRIMARY KEY, note text)",
        "INSERT INTO answered SELECT g, 'a' FROM generate_series(1, 50) g",
    )
    stack.assert_equal("answered")
    with web_faults(stack.endpoints["catalog_uri"]) as catalog, web_faults(stack.endpoints["s3_endpoint"]) as s3:
        with stack.redirected(CATALOG_URI=catalog.url, S3_ENDPOINT=s3.url):
            yield {"catalog": catalog, "s3": s3}


@pytest.mark.parametrize("case", CASES, ids=map(_label, CASES))
def test_an_answer_that_says_too_little(
    stack: Stack, web: dict[str, WebFaults], case: tuple[str, tuple[str, str], int | None, bool, int]
) -> None:
    server, request, status, done, times = case
    with web[server].rule(*request, status=status, done=done, times=times) as rule:
        stack.sql(
            f"UPDATE answered SET note = '{_label(case)}' WHERE id % 2 = 0",
            "DELETE FROM answered WHERE id % 7 = 0",
            "INSERT INTO answered SELECT max(id) + 1, 'b' FROM answered",
        )
        wait_until(rule.fired.is_set)
        stack.assert_equal("answered")
