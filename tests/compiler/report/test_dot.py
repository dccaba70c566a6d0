"""The step as a graph for Graphviz; whole texts stand in tests/golden/dot/."""

import re
from collections.abc import Callable, Iterable

import pytest
from attrs import evolve

from compiler.mapping.records import PlacementMap
from compiler.report.dot import MOST_NODES, dot
from tests.compiler.report.test_terminal import EIGHT, FOUR, ONE, of_names
from tests.placement_maps import HANDLE, make_map, step_among


def drawn(placement: PlacementMap, names: Iterable[str] | None = None, *, turned: bool = False) -> str:
    """Return a step as a graph: kernels are read, towers compute, gradients go to the updates."""
    edges = []
    for layer, kind in (("conv1", "Conv2D"), ("logits", "MatMul")):
        for each in placement.clones:
            scope = f"{each.scope}/" if each.scope else ""
            read, forward = f"{scope}{layer}/kernel/read", f"{scope}{layer}/{kind}"
            gradient = f"{scope}gradients/{layer}/{kind}_grad"
            edges += [
                (f"{layer}/kernel", read, f"{layer}/kernel:0", HANDLE),
                (read, forward, f"{read}:0", 1024),
                (read, gradient, f"{read}:0", 1024),
                (gradient, f"update/{layer}/kernel/apply", f"{gradient}:0", None if scope else 1024),
            ]
    listed = [op.name for op in placement.ops] if names is None else list(names)
    found = step_among(placement, edges if names is None else (), listed)
    return dot(placement, evolve(found, edges=found.edges[::-1]) if turned else found)


NAMED_ODDLY = evolve(ONE, spec=evolve(ONE.spec, path='a "b" \\ [c].tfdeploy'))
GRAPHS = {
    "one_clone": drawn(ONE),
    "eight_clones": drawn(EIGHT),
    "quoted": drawn(NAMED_ODDLY),
    "some_ops": drawn(ONE, ["conv1/kernel", "conv1/Conv2D"]),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_dot(name: str, golden: Callable[[str, str], None]) -> None:
    """Devices are clusters, scopes nodes with their ops; an edge counts tensors sent to another device."""
    golden(f"dot/{name}.dot", GRAPHS[name])


def test_edges_are_in_the_order_of_their_nodes() -> None:
    """In which order the tensors of a step are found makes no difference."""
    assert drawn(FOUR, turned=True) == drawn(FOUR)


SCOPES = [f"s{at}/x" for at in range(90)]


@pytest.mark.parametrize("text", [drawn(make_map(3)), drawn(make_map(64)), drawn(of_names(*SCOPES), SCOPES)])
def test_number_of_nodes(text: str) -> None:
    """There are at most sixty nodes, however many clones and scopes; every edge joins two of them."""
    nodes = set(re.findall(r"^\s*(n\d+_\d+) \[", text, re.MULTILINE))
    ends = {end for pair in re.findall(r"(n\d+_\d+) -> (n\d+_\d+)", text) for end in pair}
    assert 0 < len(nodes) <= MOST_NODES
    assert ends <= nodes
