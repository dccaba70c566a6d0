"""The step as a graph for Graphviz: nodes are scopes, clusters are devices, edges count tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from attrs import define, field, frozen

from compiler.figures import gathered, plural, size_of_known
from compiler.kinds.grid import repeated
from compiler.kinds.kind_map import AnyMap
from compiler.kinds.step_kinds import Member, StepKinds
from compiler.kinds.templates import Numbers, Template
from compiler.report import GENERATOR
from compiler.report.devices import Group, first_that_fits
from compiler.report.scopes import Part, Scope, build, cut, finder, labels_of_clones

MOST_NODES = 60

FOLD_FROM = 3
"""If there are so many clones, equal ones are drawn as one, and their devices as one cluster."""

MOST_CLUSTERS = 15
"""If there are more clusters than this, those of a host or job are combined."""


@frozen
class Node:
    """A part of the tree on one device, or on several that are shown as one."""

    name: str
    label: str
    cluster: int


def dot(placement: AnyMap, step: StepKinds) -> str:
    """Return the text of a DOT file of at most MOST_NODES nodes, unless there are more devices."""
    found = _Sites(step, _renaming(placement))
    sites = found.counts()
    root = build(sites, _inside, lambda site: site[1], sites.__getitem__)
    groups = _clusters([each.ref for each in placement.devices], root)
    where = {device: str(at) for at, group in enumerate(groups) for device in group.devices}
    clustered = build(sites, _inside, lambda site: where[site[1]], sites.__getitem__)
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
        *_edges(found.edges(), node_of, list(nodes.values())),
    ]
    return "".join(f"{line}\n" for line in [*lines, "}"])


def _inside(site: Site) -> str:
    """Return the name of something directly in the scope of a site."""
    return f"{site[0]}/"


def _clusters(devices: Sequence[str], root: Scope) -> tuple[Group, ...]:
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
    yield f'  graph [comment="{GENERATOR}", label={_quoted(title)}, {style}];'
    yield '  node [shape=box, style="rounded,filled", fillcolor=white, fontname=Helvetica, fontsize=10];'
    yield '  edge [fontname=Helvetica, fontsize=9, color="#888888"];'


def _subgraphs(groups: Sequence[Group], nodes: Iterable[Node]) -> Iterator[str]:
    for at, group in enumerate(groups):
        yield f"  subgraph cluster_{at} {{"
        yield f'    graph [label={_quoted(group.title)}, style=filled, fillcolor="#eef2f7"];'
        for node in nodes:
            if node.cluster == at:
                yield f"    {node.name} [label={_quoted(node.label)}];"
        yield "  }"


def _edges(
    sent_between: Iterable[tuple[Site, Site, Tensors]], node_of: Mapping[Site, int], nodes: Sequence[Node]
) -> Iterator[str]:
    flows: dict[tuple[int, int], dict[str, int | None]] = {}  # the bytes of tensors, if they are known
    for source, target, tensors in sent_between:
        pair = (node_of[source], node_of[target])
        if tensors or pair[0] != pair[1]:
            flows.setdefault(pair, {}).update(tensors)
    for (tail, head), sent in sorted(flows.items(), key=lambda each: each[0]):
        known = [each for each in sent.values() if each is not None]
        text = f"{plural(len(sent), 'tensor')}\n{size_of_known(sum(known), len(sent) - len(known))}"
        style = f' [label={_quoted(text)}, color="#b03030", penwidth=1.5]' if sent else ""
        yield f"  {nodes[tail].name} -> {nodes[head].name}{style};"


def _quoted(text: str) -> str:
    """Return `text` as a quoted string of DOT; a newline centres the line before it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


# --- what each scope has on each device, and what one sends to another ------------------------------------

Site = tuple[str, str]
"""The path of a scope, in which equal clones are one, and a device."""

Tensors = Sequence[tuple[str, int | None]]
"""The name of each tensor, and its bytes, or None if they are not known."""


def _scope_of(name: str) -> str:
    return name.rpartition("/")[0]


def _renaming(placement: AnyMap) -> Callable[[str], str]:
    """Return a function that puts the names in equal clones under one scope: `clone_1..7/conv1/Conv2D`."""
    towers = labels_of_clones(placement, FOLD_FROM)
    scopes = {each.index: each.scope for each in placement.clones}
    clones = ((each, label) for tower, label in towers.items() for each in placement.clones_of_tower(tower))
    labels = {scopes[clone]: label for clone, label in clones}

    def name(op: str) -> str:
        outer, _, inner = op.partition("/")  # what feeds a clone has its scope, and is of no clone
        return f"{labels[outer]}/{inner}" if outer in labels else op

    return name


@frozen
class _SiteKind:
    """The scopes and devices of ops that are alike."""

    scope: Template
    device: Template
    like: Member  # 1 for what is there for several tasks or clones

    def member(self, host: int, group: int) -> Member:
        return host * self.like[0], group * self.like[1]


@define
class _Sites:
    """The ops of a step by sites, and the tensors between these."""

    step: StepKinds
    named: Callable[[str], str]
    numbers: Numbers = field(init=False)
    of_op: list[_SiteKind] = field(init=False)  # by kind of ops
    known: dict[tuple[int, Member], Site] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.numbers = Numbers(self.step.grid)
        kinds: dict[_SiteKind, _SiteKind] = {}  # one object for equal ones, so that they are told by identity
        self.of_op = []
        for op in self.step.ops:
            like = (1 if op.spot.host else 0, 1 if op.spot.group else 0)
            kind = _SiteKind(_outer(op.name), op.device, like)
            self.of_op.append(kinds.setdefault(kind, kind))

    def at(self, kind: _SiteKind, host: int, group: int) -> Site:
        """Return one of the sites of a kind; the numbers of what it is not of do not matter."""
        member = kind.member(host, group)
        key = (id(kind), member)
        found = self.known.get(key)
        if found is None:
            scope = kind.scope.at(self.numbers, *member)
            path = _scope_of(self.named(f"{scope}/")) if scope else ""
            found = self.known[key] = (path, kind.device.at(self.numbers, *member))
        return found

    def counts(self) -> dict[Site, int]:
        """Count the ops of each site; those beside each other are repeated together for all clones."""
        found: Counter[Site] = Counter()
        pairs = zip(self.step.ops, self.of_op, strict=True)
        things = [
            (spot, (kind, count))
            for spot, run in groupby(pairs, lambda each: each[0].spot)
            for kind, count in Counter(kind for _, kind in run).items()
        ]
        for (kind, count), host, group in repeated(things, self.step.grid):
            found[self.at(kind, host, group)] += count
        return found

    def edges(self) -> Iterator[tuple[Site, Site, Tensors]]:
        """Yield a site, another that uses tensors of it, and those of these that are sent to another device.

        There may be several for the same sites, and for the same tensor.
        """
        together = gathered(
            ((id(self.of_op[each.source]), id(self.of_op[each.target]), each.spot), each)
            for each in self.step.edges
        )
        for edges in together.values():
            source, target = self.of_op[edges[0].source], self.of_op[edges[0].target]
            tensors = [each for each in edges if not each.handle]
            for member in edges[0].members(self.step.grid):
                ends = self.at(source, *member), self.at(target, *member)
                sent = tensors if ends[0][1] != ends[1][1] else ()
                yield *ends, [(each.tensor.at(self.numbers, *member), each.bytes) for each in sent]


def _outer(name: Template) -> Template:
    """Return the scope of a name, with its places."""
    for at in range(len(name.parts) - 1, -1, -1):
        part = name.parts[at]
        if isinstance(part, str) and "/" in part:
            return Template((*name.parts[:at], _scope_of(part)))
    return Template(())
