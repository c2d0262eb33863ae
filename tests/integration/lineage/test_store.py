"""What the store makes of events, in a real PostgreSQL."""

from itertools import permutations
from uuid import UUID

import pytest

from lineage import facets
from lineage.answers import Answers, NotKnown
from lineage.events import COMPLETE, FAIL, RUNNING, START, Read, Written, event, run_id
from lineage.flows import Flows
from lineage.graph import Field, Graph
from lineage.names import Name, job
from lineage.received import Received
from lineage.store import Store
from tests.integration.lineage.told import (
    DAILY,
    IN_CATALOG,
    NOON,
    ORDERS,
    TOPIC,
    after,
    body,
    derived,
    mirrored,
)

MIRROR = job("mirror", "shop.orders")


def take(store: Store, *bodies: dict[str, object]) -> list[bool]:
    return [store.take(Received(each)) for each in bodies]


def test_the_same_event_is_kept_once(store: Store) -> None:
    assert take(store, mirrored(), mirrored()) == [True, False]
    assert store.rows("SELECT count(*) AS events FROM event") == [{"events": 1}]


def test_a_run_is_what_its_events_say_in_whatever_order_they_come(store: Store) -> None:
    said = ((START, 0.0), (RUNNING, 1.0), (RUNNING, 2.0), (COMPLETE, 3.0))
    for number, order in enumerate(permutations(said)):
        take(store, *(mirrored(minutes, run=f"{number}", kind=kind) for kind, minutes in order))
        found = Answers(store).run(UUID(run_id(NOON, f"{number}")))
        assert (found["state"], found["startedAt"], found["endedAt"]) == ("COMPLETED", NOON, after(3))


def test_a_dataset_has_one_node_whichever_of_its_names_an_event_says(store: Store) -> None:
    take(store, mirrored(), derived(source=IN_CATALOG))

    graph = Graph.at(store)

    assert graph.jobs[Name("dbt", "daily")].inputs == {ORDERS}
    assert graph.around([DAILY], depth=10) == {DAILY, ORDERS, TOPIC}
    assert Answers(store).dataset(IN_CATALOG)["id"] == {"namespace": ORDERS.namespace, "name": ORDERS.name}


def test_the_graph_is_as_it_was(store: Store) -> None:
    other = Name("s3://lake", "warehouse/shop/payments")
    take(store, mirrored(), derived(1), derived(10, source=other, run="another"))

    def made_of(minutes: float) -> set[Name]:
        return Graph.at(store, after(minutes)).around([DAILY], depth=1)

    assert (made_of(0.5), made_of(5), made_of(11)) == ({DAILY}, {DAILY, ORDERS}, {DAILY, other})
    assert Graph.at(store).around([DAILY], depth=1) == {DAILY, other}


def test_columns_are_followed_through_every_job(store: Store) -> None:
    take(store, mirrored(), derived())
    graph = Graph.at(store)

    revenue, total = Field(DAILY, "revenue"), Field(ORDERS, "total")

    assert graph.fields_around([revenue], depth=10, downstream=False) == {revenue, total, Field(TOPIC, "total")}
    assert graph.fields_around([Field(TOPIC, "total")], 10, downstream=True) == {Field(TOPIC, "total"), total, revenue}
    assert graph.fields_around([Field(TOPIC, "order_id")], 10, downstream=True) == {
        Field(TOPIC, "order_id"), Field(ORDERS, "order_id")
    }  # fmt: skip


def test_a_job_that_rewrites_a_dataset_is_none_of_its_sources(store: Store) -> None:
    compaction = event(
        COMPLETE, after(1), run_id(NOON, "c"), job("maintain", "orders"), [Read(ORDERS)], [Written(ORDERS)]
    )
    take(store, mirrored(), body(compaction))

    nodes = Flows(Answers(store)).lineage(f"dataset:{ORDERS.namespace}:{ORDERS.name}", 10)["graph"]

    assert Graph.at(store).around([ORDERS], depth=10) == {ORDERS, TOPIC}
    assert {n["data"]["name"] for n in nodes if n["type"] == "JOB"} == {"mirror.shop.orders", "maintain.orders"}


def test_each_version_is_known_with_the_run_that_made_it(store: Store) -> None:
    take(store, mirrored(0, "1", START), mirrored(1, "2", RUNNING), mirrored(2, "3"))

    versions = Answers(store).versions(ORDERS, 10, 0)
    second = Answers(store).version(IN_CATALOG, "2")

    assert [v["version"] for v in versions["versions"]] == ["3", "2", "1"]
    assert versions["totalCount"] == 3
    assert second["createdByRun"]["id"] == run_id(NOON, "one")
    read = second["createdByRun"]["inputDatasetVersions"][0]
    assert read["datasetVersionId"] == {"namespace": TOPIC.namespace, "name": TOPIC.name, "version": '{"0": 7}'}
    with pytest.raises(NotKnown, match="no run has told of the version 4"):
        Answers(store).version(ORDERS, "4")


def test_a_failure_says_why(store: Store) -> None:
    take(store, body(event(FAIL, after(1), run_id(NOON, "f"), MIRROR, [Read(TOPIC)], [Written(ORDERS)],
                           dict(facets.error("the schema can't be followed")))))  # fmt: skip

    found = Answers(store).job(MIRROR)["latestRun"]

    assert found["state"] == "FAILED"
    assert found["facets"]["errorMessage"]["message"] == "the schema can't be followed"


def test_what_is_old_goes_but_for_the_newest_run_of_each_job(store: Store) -> None:
    take(store, mirrored(0, "1", run="old"), mirrored(5, "2", run="new"), derived())

    gone = store.prune(after(60))

    # Three events; and of the two runs of the mirror the older one.
    assert gone == 4
    assert Graph.at(store).around([DAILY], depth=10) == {DAILY, ORDERS, TOPIC}
    assert [v["version"] for v in Answers(store).versions(ORDERS, 10, 0)["versions"]] == ["2"]


def test_jobs_and_datasets_may_be_described_without_a_run(store: Store) -> None:
    told = mirrored()
    job_event = {name: told[name] for name in ("eventTime", "producer", "schemaURL", "job", "inputs", "outputs")}
    dataset_event = {**{name: told[name] for name in ("eventTime", "producer", "schemaURL")},
                     "dataset": {"namespace": "x", "name": "y",
                                 "facets": facets_of("documentation", {"description": "Of nothing."})}}  # fmt: skip

    take(store, job_event, dataset_event)

    assert Graph.at(store).around([ORDERS], depth=1) == {ORDERS, TOPIC}
    assert Answers(store).dataset(Name("x", "y"))["description"] == "Of nothing."


def test_a_facet_that_is_deleted_is_gone(store: Store) -> None:
    told = mirrored()
    first = {**told, "outputs": [{**told["outputs"][0], "facets": facets_of("documentation", {"description": "Old."})}]}
    gone = {**told["outputs"][0], "facets": facets_of("documentation", {"_deleted": True})}
    second = {**told, "eventTime": after(1).isoformat(), "outputs": [gone]}

    take(store, first, second)

    assert Answers(store).dataset(ORDERS)["description"] is None


def facets_of(name: str, said: dict[str, object]) -> dict[str, object]:
    return {name: {"_producer": "urn:test", "_schemaURL": "urn:test:schema", **said}}
