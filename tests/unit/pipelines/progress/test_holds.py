"""Tables that wait by themselves: when they are tried again, and what is told of them."""

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from pipelines.errors import AwaitsInput, NotPublished, StopPipeline
from pipelines.progress.holds import Holds, Outlook
from pipelines.progress.publish import progress_offsets


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_a_person_must_mend_is_tried_seldom() -> None:
    clock = Clock()
    holds = Holds(clock)
    assert holds.put("t", StopPipeline("mend it"), {0: 5})
    clock.now += 59
    assert holds.is_held("t")
    assert not holds.due("t")
    clock.now += 1
    assert holds.due("t")
    assert not holds.put("t", StopPipeline("mend it"), {0: 5}), "the same again is no news"
    assert holds.put("t", StopPipeline("something else"), {0: 5})


@pytest.mark.parametrize("error", [ValueError("passing"), NotPublished("mended in the source at any moment")])
def test_what_may_pass_is_tried_soon_then_ever_less_often(error: Exception) -> None:
    clock = Clock()
    holds = Holds(clock)
    pauses = []
    for _ in range(7):
        holds.put("t", error, {})
        pauses.append(holds.all()["t"].pause)
    assert pauses == [2, 4, 8, 16, 32, 60, 60]


def test_a_table_that_goes_on_is_as_new() -> None:
    holds = Holds(Clock())
    holds.put("t", ValueError("a\nb"), {})
    assert holds.all()["t"].reason == "ValueError: a"
    assert holds.release("t")
    assert not holds.release("t")
    assert not holds.is_held("t")


def test_a_held_tables_position_is_its_own_and_says_why() -> None:
    holds = Holds(Clock())
    holds.put("held", StopPipeline("mend it"), {0: 5, 1: 99})
    ends = {"held": {0: 10, 1: 20, 2: 30}, "free": {0: 7}}
    assert progress_offsets(ends, holds.all()) == {
        ("held", 0): (5, "mend it"), ("held", 1): (20, "mend it"), ("held", 2): (0, "mend it"), ("free", 0): (7, ""),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("error", "let_go", "told"),
    [
        (AwaitsInput("no shop.orders yet"), None, "waits: no shop.orders yet"),
        (StopPipeline("mend it"), None, "mend it"),
        (ValueError("passing"), None, "tried again soon: ValueError: passing"),
        (StopPipeline("mend it"), Outlook.GIVEN_UP, "given up: mend it"),
        (StopPipeline("mend it"), Outlook.GONE, ""),
        (StopPipeline("mend it"), Outlook.LEFT_OUT, ""),
    ],
    ids=["waits", "to be mended", "passing", "given up", "gone", "left out"],
)
def test_what_is_told_of_a_hold(error: Exception, let_go: Outlook | None, told: str) -> None:
    holds = Holds(Clock())
    holds.put("t", error, {0: 5}, let_go)
    reached = 10 if let_go else 5
    assert progress_offsets({"t": {0: 10}}, holds.all()) == {("t", 0): (reached, told)}


def test_what_is_let_go_of_is_tried_for_new_records_only() -> None:
    clock = Clock()
    holds = Holds(clock)
    holds.put("t", StopPipeline("mend it"), {})
    assert holds.put("t", StopPipeline("mend it"), {}, Outlook.GONE), "that it is let go of is news"
    assert not holds.put("t", StopPipeline("mend it"), {}, Outlook.GONE)
    clock.now += 3600
    assert not holds.due("t")
    assert holds.due("t", came=True)
    assert holds.put("t", StopPipeline("mend it"), {}), "that it is waited for again is news"


def test_of_an_error_of_the_jvm_the_cause_is_told(spark: SparkSession) -> None:
    holds, jvm = Holds(Clock()), spark._jvm
    assert jvm is not None
    cause = jvm.java.lang.IllegalStateException("Service failed: 503\nand more")
    wrapped = jvm.java.util.concurrent.CompletableFuture.failedFuture(jvm.java.lang.RuntimeException("vague", cause))
    with pytest.raises(Py4JJavaError) as error:
        wrapped.get()
    holds.put("t", error.value, {})
    assert holds.all()["t"].reason == "IllegalStateException: Service failed: 503"
