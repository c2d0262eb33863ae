"""Draw: a graph as a tree for people, and for Graphviz and Mermaid."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.text import Text
from rich.tree import Tree

Nodes = Mapping[str, Mapping[str, Any]]
UPSTREAM, DOWNSTREAM = "upstream", "downstream"


def indexed(graph: Iterable[Mapping[str, Any]]) -> Nodes:
    """Nodes by their names."""
    return {node["id"]: node for node in graph}


def merged(parts: Iterable[Nodes]) -> Nodes:
    """Parts of one graph, as one: a node has the edges that it has in any of them."""
    found: dict[str, Mapping[str, Any]] = {}
    for name, node in ((name, node) for part in parts for name, node in part.items()):
        known = found.get(name, node)
        edges_ = {
            side: [*known[side], *(e for e in node[side] if e not in known[side])] for side in ("inEdges", "outEdges")
        }
        found[name] = {**node, **edges_}
    return found


def label(node: Mapping[str, Any]) -> str:
    """Return what people call a dataset, a column or a job."""
    data = node["data"]
    if node["type"] == "JOB":
        return str(data["name"])
    name = data["dataset"] if node["type"] == "DATASET_FIELD" else data["name"]
    kind, _, where = data["namespace"].partition("://")
    links = (data.get("facets", {}).get("symlinks") or {}).get("identifiers") or ()
    shown = next((f"lake.{link['name']}" for link in links), name)
    column = f".{data['field']}" if node["type"] == "DATASET_FIELD" else ""
    told = {"kafka": "topic of Kafka", "postgres": "PostgreSQL"}.get(kind)
    return f"{shown}{column}" + (f"  ({told} {where})" if told else "")


def tree(nodes: Nodes, root: str, directions: Iterable[str], title: str) -> Tree:
    """Return what the root is made of, and what is made of it."""
    drawn = Tree(Text(title))
    for direction in directions:
        branch = drawn.add(direction)
        _grow(branch, nodes, root, direction, {root})
        if not branch.children:
            branch.add("nothing")
    return drawn


def reached(nodes: Nodes, root: str, direction: str) -> list[str]:
    """Return what people call whatever lies in this direction, nearest first."""
    found: dict[str, None] = {root: None}
    for at in (queue := [root]):
        for other, _ in _next(nodes, at, direction):
            if other not in found:
                found[other] = None
                queue.append(other)
    return [label(nodes[name]).replace("  ", " ") for name in found if name != root]


def _grow(branch: Tree, nodes: Nodes, at: str, direction: str, seen: set[str]) -> None:
    for following, how in _next(nodes, at, direction):
        node = nodes[following]
        told = f"{label(node)}{how}"
        if following in seen:
            branch.add(Text(f"{told}  (see above)"))
            continue
        seen.add(following)
        _grow(branch.add(Text(told)), nodes, following, direction, seen)


def _next(nodes: Nodes, at: str, direction: str) -> list[tuple[str, str]]:
    """Return the datasets one job further, and the jobs that end there, with how they hang together."""
    if nodes[at]["type"] == "DATASET_FIELD":
        return [(other, _how(nodes, at, other, direction)) for other in _ends(nodes, at, direction)]
    found = []
    for job in _ends(nodes, at, direction):
        into = [other for other in _ends(nodes, job, direction) if other != at]
        # A job that reads and writes the same is no source of it.
        if at not in _ends(nodes, job, direction):
            found += [(other, f"  by {label(nodes[job])}") for other in into] or [(job, "")]
    return found


def _how(nodes: Nodes, at: str, other: str, direction: str) -> str:
    target, source = (nodes[at], nodes[other]) if direction == UPSTREAM else (nodes[other], nodes[at])
    for made in target["data"]["inputFields"]:
        if (made["namespace"], made["dataset"], made["field"]) == tuple(
            source["data"][name] for name in ("namespace", "dataset", "field")
        ):
            masked = "".join(
                ", masked" + (f" ({step['description']})" if step.get("description") else "")
                for step in made["transformations"] if step.get("masking")
            )  # fmt: skip
            return f"  {(made['transformationType'] or 'made').lower()}{masked} by {made['job']['name']}"
    return ""


def _ends(nodes: Nodes, at: str, direction: str) -> list[str]:
    if direction == UPSTREAM:
        ends = [edge["origin"] for edge in nodes[at]["inEdges"]]
    else:
        ends = [edge["destination"] for edge in nodes[at]["outEdges"]]
    return [end for end in ends if end in nodes]


def within(nodes: Nodes, root: str, directions: Iterable[str]) -> Nodes:
    """Return the part of a graph that lies in these directions of its root."""
    kept = {root}
    for direction in directions:
        queue = [root]
        reached = {root}
        while queue:
            at = queue.pop()
            reached |= (ends := {end for end in _ends(nodes, at, direction) if end not in reached})
            queue += ends
        kept |= reached
    return {name: node for name, node in nodes.items() if name in kept}


def edges(nodes: Nodes) -> list[tuple[str, str]]:
    """From where to where, both ends in the graph."""
    found = {(e["origin"], e["destination"]) for node in nodes.values() for e in (*node["inEdges"], *node["outEdges"])}
    return sorted((origin, end) for origin, end in found if origin in nodes and end in nodes)


def graphviz(nodes: Nodes) -> str:
    """Return a digraph in DOT."""
    numbers = {name: f"n{i}" for i, name in enumerate(sorted(nodes))}
    lines = ["digraph lineage {", "  rankdir=LR;", '  node [fontname="sans-serif"];']
    for name, number in numbers.items():
        text = label(nodes[name]).replace("\\", "\\\\").replace('"', '\\"').replace("  ", "\\n")
        shape = "ellipse" if nodes[name]["type"] == "JOB" else "box"
        lines.append(f'  {number} [label="{text}", shape={shape}];')
    lines += [f"  {numbers[origin]} -> {numbers[end]};" for origin, end in edges(nodes)]
    return "\n".join([*lines, "}"])


def mermaid(nodes: Nodes) -> str:
    """Return a flowchart for Mermaid."""
    numbers = {name: f"n{i}" for i, name in enumerate(sorted(nodes))}
    lines = ["flowchart LR"]
    for name, number in numbers.items():
        text = label(nodes[name]).replace('"', "#quot;").replace("  ", "<br>")
        left, right = ("([", "])") if nodes[name]["type"] == "JOB" else ("[", "]")
        lines.append(f'  {number}{left}"{text}"{right}')
    lines += [f"  {numbers[origin]} --> {numbers[end]}" for origin, end in edges(nodes)]
    return "\n".join(lines)
