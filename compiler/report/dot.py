"""The step as a graph for Graphviz: nodes are scopes, clusters are devices, edges count tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import frozen

from compiler.figures import plural, size_of_known
from compiler.kinds.expanding.expand import devices_of
from compiler.kinds.records.kind_map import AnyMap, KindMap
from compiler.kinds.records.step_kinds import StepKinds
from compiler.mapping.records import PlacementMap
from compiler.mapping.step_graph import StepGraph
from compiler.report import scopes
from compiler.report.columns import Group, first_that_fits
from compiler.report.cut import Part, cut, finder
from compiler.report.sites import Site, StepSites, sites_of, sites_of_kinds

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


def dot(placement: PlacementMap, step: StepGraph) -> str:
    """Return the text of a DOT file of at most MOST_NODES nodes, unless there are more devices.

    Args:
        placement: The map, of the first version.
        step: The ops of a step and the tensors between them.
    """
    return _text(placement, sites_of(placement, step, FOLD_FROM))


def dot_of_kinds(placement: KindMap, step: StepKinds) -> str:
    """Return the text of a DOT file of clones that are alike, which is that of their graph.

    Args:
        placement: The map, by kinds.
        step: The ops of a step and the tensors between them.
    """
    return _text(placement, sites_of_kinds(placement, step, FOLD_FROM))


def _text(placement: AnyMap, step: StepSites) -> str:
    sites = step.ops
    root = scopes.build(sites, _inside, lambda site: site[1], sites.__getitem__)
    groups = _clusters([each.ref for each in devices_of(placement)], root)
    where = {device: str(at) for at, group in enumerate(groups) for device in group.devices}
    clustered = scopes.build(sites, _inside, lambda site: where[site[1]], sites.__getitem__)
    parts = cut(clustered, MOST_NODES, lambda scope: scope.total * MOST_NODES > root.total)
    nodes = {
        (id(part), cluster): Node(f"n{at}_{cluster}", _label(part, cluster, groups), int(cluster))
        for at, part in enumerate(parts)
        for cluster in sorted(part.counts, key=int)
    }
    find = finder(parts)
    order = {key: at for at, key in enumerate(nodes)}
    node_of = {site: order[id(find(_inside(site))), where[site[1]]] for site in sites}
    lines = [
        *_head(placement, root.total, groups),
        *_subgraphs(groups, nodes.values()),
        *_edges(step, node_of, list(nodes.values())),
    ]
    return "".join(f"{line}\n" for line in [*lines, "}"])


def _inside(site: Site) -> str:
    """Return the name of something directly in the scope of a site."""
    return f"{site[0]}/"


def _clusters(devices: Sequence[str], root: scopes.Scope) -> tuple[Group, ...]:
    """Return the devices in clusters, so few that each can have several nodes."""
    counted: dict[str, list[tuple[int, int]]] = {each: [] for each in devices if root.counts[each]}
    for at, (_, scope) in enumerate(root.walk(root.depth)):
        for device, number in scope.counts.items():
            counted[device].append((at, number))
    return first_that_fits(
        list(counted),
        lambda device: tuple(counted[device]),
        lambda groups: len(groups) <= (FOLD_FROM if len(groups) == len(counted) else MOST_CLUSTERS),
    )


def _label(part: Part, cluster: str, groups: Sequence[Group]) -> str:
    group = groups[int(cluster)]
    number = part.counts[cluster]
    each = group.figures == "each" and len(group.devices) > 1
    name = part.scope.path or "(no scope)"
    return (
        f"{name}\n{plural(number // len(group.devices) if each else number, 'op')}{' each' if each else ''}"
    )


def _head(placement: AnyMap, ops: int, groups: Sequence[Group]) -> Iterator[str]:
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


def _edges(step: StepSites, node_of: Mapping[Site, int], nodes: Sequence[Node]) -> Iterator[str]:
    """Yield the edges in the order of their nodes.

    Args:
        step: The sites of a step.
        node_of: The number of the node of each site.
        nodes: The nodes.
    """
    flows: dict[tuple[int, int], dict[str, int | None]] = {}  # the bytes of tensors, if they are known
    for source, target, tensors in step.edges:
        pair = (node_of[source], node_of[target])
        if tensors or pair[0] != pair[1]:
            flows.setdefault(pair, {}).update(tensors)
    for (tail, head), sent in sorted(flows.items(), key=lambda each: each[0]):
        known = [each for each in sent.values() if each is not None]
        label = f"{plural(len(sent), 'tensor')}\n{size_of_known(sum(known), len(sent) - len(known))}"
        style = f' [label={_quoted(label)}, color="#b03030", penwidth=1.5]' if sent else ""
        yield f"  {nodes[tail].name} -> {nodes[head].name}{style};"


def _quoted(text: str) -> str:
    """Return `text` as a quoted string of DOT; a newline centres the line before it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
