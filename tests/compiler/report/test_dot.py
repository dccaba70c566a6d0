"""The step as a graph for Graphviz, read back by a small parser of DOT."""

from __future__ import annotations

import re

import pytest
from attrs import define, evolve, field

from compiler.kinds.records.step_kinds import StepKinds
from compiler.mapping.records import PlacementMap
from compiler.report.dot import MOST_NODES, dot
from tests.placement_maps import HANDLE, make_map, step_among

TOKEN = re.compile(r'\s*(?:(->|[{}\[\]=;,])|("(?:[^"\\]|\\.)*")|([A-Za-z_][A-Za-z0-9_]*|#?[0-9.]+))')


@define
class Parsed:
    """What a DOT file says: clusters with their nodes' labels, and edges with their labels."""

    clusters: dict[str, dict[str, str]] = field(factory=dict)
    edges: dict[tuple[str, str], str] = field(factory=dict)

    def of(self, label: str) -> str:
        """Return the name of the node with this label."""
        (name,) = [name for nodes in self.clusters.values() for name, each in nodes.items() if each == label]
        return name


class Parser:
    """Reads the part of DOT that is written: subgraphs, nodes, edges, lists of attributes."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            match = TOKEN.match(text, at)
            assert match is not None, f"not DOT: {text[at : at + 40]!r}"
            self.tokens.append(match[match.lastindex or 0])
            at = match.end()
        self.found = Parsed()

    def take(self, *wanted: str) -> str:
        """Take the next token, which must be one of `wanted` if there are any."""
        token = self.tokens.pop(0)
        assert not wanted or token in wanted, f"{token} where {wanted} should be"
        return token

    def graph(self) -> Parsed:
        """Read a whole file."""
        self.take("digraph")
        self.take()
        self.body("")
        assert not self.tokens
        return self.found

    def body(self, cluster: str) -> None:
        """Read what stands between braces; the name of a cluster is the label of its `graph` statement."""
        self.take("{")
        nodes: dict[str, str] = {}
        label = ""
        while self.tokens[0] != "}":
            if self.tokens[0] == "subgraph":
                self.take()
                self.body(self.take())
                continue
            name = self.take()
            target = self.take("->") and self.take() if self.tokens[0] == "->" else None
            attributes = self.attributes()
            if name == "graph":
                label = attributes["label"]
            elif target is not None:
                self.found.edges[name, target] = attributes.get("label", "")
            elif name not in {"node", "edge"}:
                nodes[name] = attributes["label"]
        self.take("}")
        if cluster:
            self.found.clusters[label] = nodes

    def attributes(self) -> dict[str, str]:
        """Read an optional list of attributes and the semicolon behind it."""
        found = {}
        if self.tokens[0] == "[":
            self.take()
            while self.tokens[0] != "]":
                name = self.take()
                self.take("=")
                found[name] = unquoted(self.take())
                if self.tokens[0] == ",":
                    self.take()
            self.take("]")
        self.take(";")
        return found


def unquoted(token: str) -> str:
    """Return what a quoted string of DOT shows."""
    if not token.startswith('"'):
        return token
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], token[1:-1])


def step_of(placement: PlacementMap) -> StepKinds:
    """Return a step: kernels are read, towers compute, gradients go to the updates."""
    names = [op.name for op in placement.ops]
    scopes = [f"{each.scope}/" if each.scope else "" for each in placement.clones]
    edges = []
    for layer in ("conv1", "logits"):
        kind = "Conv2D" if layer == "conv1" else "MatMul"
        for scope in scopes:
            read, forward = f"{scope}{layer}/kernel/read", f"{scope}{layer}/{kind}"
            gradient = f"{scope}gradients/{layer}/{kind}_grad"
            edges += [
                (f"{layer}/kernel", read, f"{layer}/kernel:0", HANDLE),
                (read, forward, f"{read}:0", 1024),
                (read, gradient, f"{read}:0", 1024),
                (gradient, f"update/{layer}/kernel/apply", f"{gradient}:0", None if scope else 1024),
            ]
    return step_among(placement, edges, names)


def test_clusters_nodes_and_edges() -> None:
    """Devices are clusters, scopes nodes with their ops; an edge counts tensors sent to another device."""
    placement = make_map(1)
    found = Parser(dot(placement, step_of(placement))).graph()
    assert found.clusters == {
        "cpu[0]": {
            "n0_0": "input\n1 op",
            "n1_0": "conv1\n1 op",
            "n2_0": "conv1/kernel\n2 ops",
            "n3_0": "logits\n1 op",
            "n4_0": "logits/kernel\n2 ops",
            "n7_0": "update/conv1/kernel\n1 op",
            "n8_0": "update/logits/kernel\n1 op",
        },
        "gpu[0]": {
            "n1_1": "conv1\n3 ops",
            "n3_1": "logits\n2 ops",
            "n5_1": "gradients/logits\n1 op",
            "n6_1": "gradients/conv1\n1 op",
        },
    }
    assert found.edges == {
        ("n1_0", "n2_0"): "",
        ("n2_0", "n1_1"): "1 tensor\n1.00 KiB",
        ("n2_0", "n6_1"): "1 tensor\n1.00 KiB",
        ("n6_1", "n7_0"): "1 tensor\n1.00 KiB",
        ("n3_0", "n4_0"): "",
        ("n4_0", "n3_1"): "1 tensor\n1.00 KiB",
        ("n4_0", "n5_1"): "1 tensor\n1.00 KiB",
        ("n5_1", "n8_0"): "1 tensor\n1.00 KiB",
    }


def test_edges_are_in_the_order_of_their_nodes() -> None:
    """In which order the tensors of a step are found makes no difference."""
    placement = make_map(4)
    step = step_of(placement)
    assert dot(placement, evolve(step, edges=step.edges[::-1])) == dot(placement, step)


def test_clones_alike_are_one() -> None:
    """Many clones and their devices are drawn as one; the edges count what all of them send."""
    placement = make_map(8)
    found = Parser(dot(placement, step_of(placement))).graph()
    assert list(found.clusters) == ["cpu[0]", "gpu[0..7] (each of 8)"]
    read, forward = found.of("clone_0..7/conv1/kernel\n8 ops"), found.of("clone_0..7/conv1\n3 ops each")
    assert found.edges[read, forward] == "8 tensors\n8.00 KiB"
    gradient, update = (
        found.of("clone_0..7/gradients/conv1\n1 op each"),
        found.of("update/conv1\n1 op"),
    )
    assert found.edges[gradient, update] == "8 tensors\n.+"


@pytest.mark.parametrize("clones", [1, 2, 3, 8, 64])
def test_number_of_nodes(clones: int) -> None:
    """However many clones there are, there are at most sixty nodes, and every edge joins two of them."""
    placement = make_map(clones)
    found = Parser(dot(placement, step_of(placement))).graph()
    nodes = [name for each in found.clusters.values() for name in each]
    assert 0 < len(nodes) <= MOST_NODES
    assert {name for pair in found.edges for name in pair} <= set(nodes)


def test_names_are_quoted() -> None:
    """A spec's path and the names of ops may hold quotes, backslashes and brackets."""
    placement = make_map(1)
    placement = evolve(placement, spec=evolve(placement.spec, path='a "b" \\ [c].tfdeploy'))
    text = dot(placement, step_of(placement))
    assert '"a \\"b\\" \\\\ [c].tfdeploy: the 16 ops of a step"' in text
    Parser(text).graph()


def test_nothing_but_the_step() -> None:
    """Ops that a step does not run are left out."""
    placement = make_map(1)
    step = step_among(placement, (), {"conv1/kernel", "conv1/Conv2D"})
    found = Parser(dot(placement, step)).graph()
    assert found.clusters == {"cpu[0]": {"n0_0": "conv1\n1 op"}, "gpu[0]": {"n0_1": "conv1\n1 op"}}
