"""Validate: expectations, asked of a Spark DataFrame by Great Expectations.

No sample of a row is kept, and of columns that are classified or protected nothing but counts.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from quality.suites import Expectation

# No row becomes part of a result: it may have values that nobody may see.
RESULT_FORMAT = {"result_format": "SUMMARY", "partial_unexpected_count": 0}
NAME = "promise"
WITHHELD = "it failed, and what is said of it may show a value"
# How Py4J says that something of the JVM was raised, and how a stack trace names what that came of.
JVM, CAUSE = "An error occurred while calling ", "Caused by: "
# What is kept of a result where values are nobody's business.
COUNTS = ("element_count", "unexpected_count", "unexpected_percent", "missing_count", "missing_percent")


@dataclass(frozen=True)
class Result:
    """What was found of an expectation.

    ``success`` None: it couldn't be asked, for the reason ``error``. ``elements``, ``unexpected``: how many rows were
    asked and how many broke it, of one of rows; ``observed``: of another, as text.
    """

    expectation: Expectation
    success: bool | None
    elements: int | None = None
    unexpected: int | None = None
    observed: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Validation:
    """What a batch was asked. ``document``: Great Expectations' own result, as plain data, for its Data Docs."""

    results: tuple[Result, ...]
    document: dict[str, Any]


def validate(frame: Any, expectations: Sequence[Expectation], name: str) -> Validation:
    """Ask ``frame`` (of Spark) for all ``expectations``; ``name``: what the suite is called."""
    gx = great_expectations()
    context = silent(gx.get_context(mode="ephemeral"))
    asset = context.data_sources.add_spark("lake").add_dataframe_asset(name)
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch(batch_parameters={"dataframe": frame})
    asked: list[Any] = []
    results: dict[str, Result] = {}
    for expectation in expectations:
        try:
            asked.append(_built(expectation))
        except (ValueError, TypeError, gx.exceptions.GreatExpectationsError) as error:
            results[expectation.name] = Result(expectation, None, error=_told(expectation, _line(error)))
    found = batch.validate(gx.ExpectationSuite(name=name, expectations=asked), result_format=RESULT_FORMAT)
    by_name = {expectation.name: expectation for expectation in expectations}
    for result in found.results:
        expectation = by_name[result.expectation_config.meta[NAME]]
        results[expectation.name] = _result(expectation, result)
    ordered = tuple(results[expectation.name] for expectation in expectations)
    document = found.to_json_dict()
    for each in document["results"]:
        if by_name[each["expectation_config"]["meta"][NAME]].private:
            _withhold(each)
    return Validation(ordered, document)


@cache
def great_expectations() -> Any:
    """Return the package. It tells its makers nothing of us."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as package

    return package


def silent(context: Any) -> Any:
    """Return a context that draws no progress bars."""
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    return context


def _built(expectation: Expectation) -> Any:
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    configured = ExpectationConfiguration(
        type=expectation.kind, kwargs=dict(expectation.arguments), meta={NAME: expectation.name},
        description=expectation.description,
    )  # fmt: skip
    return configured.to_domain_obj()


def _result(expectation: Expectation, found: Any) -> Result:
    raised = next((each for each in _raised(found.exception_info or {})), None)
    if raised is not None:
        return Result(expectation, None, error=_told(expectation, raised))
    told = found.result or {}
    elements, unexpected, observed = (told.get(n) for n in ("element_count", "unexpected_count", "observed_value"))
    if expectation.private:
        observed = None
    return Result(expectation, bool(found.success), elements, unexpected, None if observed is None else f"{observed}")


def _withhold(result: dict[str, Any]) -> None:
    """Take out of a result, as plain data, what may be a value of a row."""
    result["result"] = {name: count for name, count in (result.get("result") or {}).items() if name in COUNTS}
    if any(_raised(result.get("exception_info") or {})):
        result["exception_info"] = {"raised_exception": True, "exception_message": WITHHELD, "exception_traceback": ""}


def _told(expectation: Expectation, error: str) -> str:
    if not expectation.private:
        return error
    # Spark names the class of an error before it quotes the value.
    named = re.match(r"\[[A-Z_.]+\]", error)
    return f"{WITHHELD}{f' {named[0]}' if named else ''}"


def _raised(info: dict[str, Any]) -> list[str]:
    """Return the exception messages of a result: of the expectation, or of each metric that it needs."""
    told = [info] if "raised_exception" in info else [each for each in info.values() if isinstance(each, dict)]
    return [_line(each.get("exception_message")) for each in told if each.get("raised_exception")]


def _line(said: object) -> str:
    """Return an error's message in one line; of one that came from the JVM that of its cause."""
    lines = f"{said}".strip().splitlines()
    if not lines:
        return "an error without a message"
    causes = [line.removeprefix(CAUSE) for line in lines if line.startswith(CAUSE)]
    if lines[0].startswith(JVM) and len(lines) > 1:
        return causes[-1] if causes else lines[1].removeprefix(": ")
    return lines[0]
