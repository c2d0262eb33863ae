"""Graphs on paper."""

from io import StringIO
from typing import Any

from rich.console import Console

from services.lineage.draw import DOWNSTREAM, UPSTREAM, edges, graphviz, indexed, merged, mermaid, reached, tree, within

SOURCE, TOPIC = "dataset:postgres://db:5432:shop.public.orders", "dataset:kafka://k:9092:shop.public.orders"
ORDERS, DAILY = "dataset:s3://lake:warehouse/shop/orders", "dataset:s3://lake:warehouse/gold/daily"
LINKS = {ORDERS: "shop.orders", DAILY: "gold.daily"}


def dataset(node: str) -> dict[str, Any]:
    _, kind, rest = node.split(":", 2)
    namespace, name = rest.rsplit(":", 1)
    linked = {"symlinks": {"identifiers": [{"name": LINKS[node]}]}} if node in LINKS else {}
    return {"id": node, "type": "DATASET", "inEdges": [], "outEdges": [],
            "data": {"namespace": f"{kind}:{namespace}", "name": name, "facets": linked}}  # fmt: skip


def graph(*flows: tuple[str, list[str], list[str]]) -> list[dict[str, Any]]:
    nodes = {name: dataset(name) for _, inputs, outputs in flows for name in (*inputs, *outputs)}
    for job, inputs, outputs in flows:
        at = f"job:lakehouse:{job}"
        nodes[at] = {
            "id": at,
            "type": "JOB",
            "data": {"name": job, "namespace": "lakehouse"},
            "inEdges": [],
            "outEdges": [],
        }
        for origin, end in [*((name, at) for name in inputs), *((at, name) for name in outputs)]:
            nodes[origin]["outEdges"].append({"origin": origin, "destination": end})
            nodes[end]["inEdges"].append({"origin": origin, "destination": end})
    return list(nodes.values())


SHOP = indexed(graph(
    ("capture", [SOURCE], [TOPIC]), ("mirror", [TOPIC], [ORDERS]), ("compact", [ORDERS], [ORDERS]),
    ("check", [ORDERS], []), ("gold", [ORDERS], [DAILY]),
))  # fmt: skip


def drawn(nodes: Any, root: str, *directions: str) -> str:
    console = Console(width=200, file=(text := StringIO()))
    console.print(tree(nodes, root, directions, "it"))
    return text.getvalue()


def test_a_tree_goes_both_ways_and_leaves_out_what_only_rewrites() -> None:
    assert drawn(SHOP, ORDERS, UPSTREAM, DOWNSTREAM).splitlines() == [
        "it",
        "├── upstream",
        "│   └── shop.public.orders  (topic of Kafka k:9092)  by mirror",
        "│       └── shop.public.orders  (PostgreSQL db:5432)  by capture",
        "└── downstream",
        "    ├── check",
        "    └── lake.gold.daily  by gold",
    ]


def test_a_column_says_how_it_is_made_of_another() -> None:
    def column(kind: str, where: str, name: str, field: str, made: list[dict[str, Any]]) -> dict[str, Any]:
        node = f"datasetField:{kind}://{where}:{name}:{field}"
        data = {"namespace": f"{kind}://{where}", "dataset": name, "field": field, "inputFields": made}
        edges = [
            {"origin": f"datasetField:{m['namespace']}:{m['dataset']}:{m['field']}", "destination": node} for m in made
        ]
        return {"id": node, "type": "DATASET_FIELD", "data": data, "inEdges": edges, "outEdges": []}

    def made(how: str, **step: Any) -> list[dict[str, Any]]:
        return [{"namespace": "s3://lake", "dataset": "orders", "field": "mail", "transformationType": how,
                 "transformations": [step], "job": {"name": "publish"}}]  # fmt: skip

    for how, said in (
        (made("IDENTITY", masking=False), "identity"),
        (made("TRANSFORMATION", masking=True, description="hash"), "transformation, masked (hash)"),
        (made("AGGREGATION", masking=True), "aggregation, masked"),
    ):
        nodes = indexed([column("s3", "lake", "orders", "mail", []), column("s3", "lake", "shown", "mail", how)])
        assert drawn(nodes, "datasetField:s3://lake:shown:mail", UPSTREAM).splitlines()[2:] == [
            f"    └── orders.mail  {said} by publish"
        ]


def test_a_circle_is_walked_once() -> None:
    nodes = indexed(graph(("a", [ORDERS], [DAILY]), ("b", [DAILY], [ORDERS])))

    assert drawn(nodes, ORDERS, UPSTREAM).splitlines()[2:] == [
        "    └── lake.gold.daily  by b",
        "        └── lake.shop.orders  by a  (see above)",
    ]


def test_the_nearest_come_first() -> None:
    assert reached(SHOP, DAILY, UPSTREAM) == [
        "lake.shop.orders", "shop.public.orders (topic of Kafka k:9092)", "shop.public.orders (PostgreSQL db:5432)"
    ]  # fmt: skip


def test_parts_make_the_whole() -> None:
    parts = [indexed(graph(("capture", [SOURCE], [TOPIC]), ("mirror", [TOPIC], [ORDERS]))),
             indexed(graph(("mirror", [TOPIC], [ORDERS]), ("gold", [ORDERS], [DAILY])))]  # fmt: skip
    whole = indexed(graph(("capture", [SOURCE], [TOPIC]), ("mirror", [TOPIC], [ORDERS]), ("gold", [ORDERS], [DAILY])))
    assert edges(merged(parts)) == edges(whole)
    assert drawn(merged(parts), DAILY, UPSTREAM) == drawn(whole, DAILY, UPSTREAM)


def test_a_direction_leaves_the_other_out() -> None:
    assert set(within(SHOP, ORDERS, [DOWNSTREAM])) == {
        ORDERS, DAILY, "job:lakehouse:check", "job:lakehouse:gold", "job:lakehouse:compact"
    }  # fmt: skip


def test_every_edge_is_in_the_pictures() -> None:
    for text, arrow in ((graphviz(SHOP), " -> "), (mermaid(SHOP), " --> ")):
        assert text.count(arrow) == 9
        assert "lake.gold.daily" in text
