"""The step as a graph for Graphviz: nodes are scopes, clusters are devices, edges count tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from attrs import define, field, frozen

from compiler.figures import plural, size_of_known
from compiler.mapping.records import MapOp, PlacementMap
from compiler.mapping.step_graph import Edge, StepGraph
from compiler.report import scopes
from compiler.report.columns import Group, first_that_fits
from compiler.report.cut import Part, cut, finder

MOST_NODES = 60

FOLD_FROM = 3
"""If there are so many clones, equal ones are drawn as one, and their devices as one cluster."""

MOST_CLUSTERS = 15
"""If there are more clusters than this, those of a host or job are combined."""


@frozen
class Node:
    """A part of the tree on one device, or on several that are shown as one.

    Attributes:
        name: Its name in the DOT file.
        label: What is written in it.
        cluster: The number of its cluster.
    """

    name: str
    label: str
    cluster: int


@define
class Flow:
    """What is sent to another device between two nodes.

    Attributes:
        tensors: The bytes of each tensor by its name; None if its size is not known.
    """

    tensors: dict[str, int | None] = field(factory=dict)

    @property
    def label(self) -> str:
        """The number of tensors and of bytes."""
        known = [each for each in self.tensors.values() if each is not None]
        unknown = len(self.tensors) - len(known)
        return f"{plural(len(self.tensors), 'tensor')}\n{size_of_known(sum(known), unknown)}"


def dot(placement: PlacementMap, step: StepGraph) -> str:
    """Return the text of a DOT file of at most MOST_NODES nodes, unless there are more devices.

    Args:
        placement: The map, of the first version.
        step: The ops of a step and the tensors between them.
    """
    ops = {op.name: op for op in placement.ops if op.name in step.ops}
    named = scopes.fold(placement, FOLD_FROM)
    root = scopes.tree_of(ops.values(), named)
    groups = _clusters(placement, root)
    where = {device: at for at, group in enumerate(groups) for device in group.devices}
    clustered = scopes.build(ops.values(), named, lambda op: str(where[op.requested]))
    parts = cut(clustered, MOST_NODES, lambda scope: scope.total * MOST_NODES > root.total)
    nodes = {
        (id(part), cluster): Node(f"n{at}_{cluster}", _label(part, cluster, groups), int(cluster))
        for at, part in enumerate(parts)
        for cluster in sorted(part.counts, key=int)
    }
    find = finder(parts)

    def node_of(op: MapOp) -> Node:
        return nodes[id(find(named(op))), str(where[op.requested])]

    lines = [
        *_head(placement, len(ops), groups),
        *_subgraphs(groups, nodes.values()),
        *_edges(step.edges, ops, node_of),
    ]
    return "".join(f"{line}\n" for line in [*lines, "}"])


def _clusters(placement: PlacementMap, root: scopes.Scope) -> tuple[Group, ...]:
    """Return the devices in clusters, so few that each can have several nodes."""
    devices = [each.ref for each in placement.devices if root.counts[each.ref]]
    counted = [scope for _, scope in root.walk(root.depth)]
    return first_that_fits(
        devices,
        lambda device: tuple(scope.counts[device] for scope in counted),
        lambda groups: len(groups) <= (FOLD_FROM if len(groups) == len(devices) else MOST_CLUSTERS),
    )


def _label(part: Part, cluster: str, groups: Sequence[Group]) -> str:
    group = groups[int(cluster)]
    number = part.counts[cluster]
    each = group.figures == "each" and len(group.devices) > 1
    name = part.scope.path or "(no scope)"
    return (
        f"{name}\n{plural(number // len(group.devices) if each else number, 'op')}{' each' if each else ''}"
    )


def _head(placement: PlacementMap, ops: int, groups: Sequence[Group]) -> Iterator[str]:
    title = f"{placement.spec.path}: the {plural(ops, 'op')} of a step"
    if any(len(group.devices) > 1 for group in groups):
        title += "\nedges count what all devices of a cluster send"
    yield "digraph placement {"
    style = "labelloc=t, fontname=Helvetica, compound=true, newrank=true"
    yield f'  graph [comment="made by tfdeploy", label={_quoted(title)}, {style}];'
    yield '  node [shape=box, style="rounded,filled", fillcolor=white, fontname=Helvetica, fontsize=10];'
    yield '  edge [fontname=Helvetica, fontsize=9, color="#888888"];'


def _subgraphs(groups: Sequence[Group], nodes: Iterable[Node]) -> Iterator[str]:
    for at, group in enumerate(groups):
        yield f"  subgraph cluster_{at} {{"
        note = f" ({group.note})" if group.note else ""
        yield f'    graph [label={_quoted(group.label + note)}, style=filled, fillcolor="#eef2f7"];'
        for node in nodes:
            if node.cluster == at:
                yield f"    {node.name} [label={_quoted(node.label)}];"
        yield "  }"


def _edges(
    edges: Sequence[Edge], ops: Mapping[str, MapOp], node_of: Callable[[MapOp], Node]
) -> Iterator[str]:
    flows: dict[tuple[str, str], Flow] = {}
    for edge in edges:
        source, target = ops[edge.source], ops[edge.target]
        pair = (node_of(source).name, node_of(target).name)
        sent = source.requested != target.requested and not edge.handle
        if sent or pair[0] != pair[1]:
            flow = flows.setdefault(pair, Flow())
            if sent:
                flow.tensors[edge.tensor] = edge.bytes
    for (tail, head), flow in flows.items():
        style = f' [label={_quoted(flow.label)}, color="#b03030", penwidth=1.5]' if flow.tensors else ""
        yield f"  {tail} -> {head}{style};"


def _quoted(text: str) -> str:
    """Return `text` as a quoted string of DOT; a newline centres the line before it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
