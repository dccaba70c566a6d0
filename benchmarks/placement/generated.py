"""Graphs like those of published models, with made-up costs.

Inputs of the published kind with up to 2,000 nodes. No results are published for them; they show how the
search behaves. Costs are relative to each other as in the published ones: a weight has no time of its own, an
element-wise operator is cheap beside what its output costs to move, a multiplication is not. The same
arguments give the same graph.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from attrs import define, field

MEMORY = 16 * 2.0**30
PLAIN = (0, 1)  # layers of a recurrent stack without a residual connection


@define
class Drawing:
    """A graph to which nodes are added.

    Attributes:
        random: The generator of random numbers.
        nodes: The nodes so far, in the published form.
        edges: For each node the nodes that read its output.
        moves: The seconds that moving the output of each node takes.
    """

    random: random.Random
    nodes: list[dict[str, Any]] = field(factory=list)
    edges: list[list[int]] = field(factory=list)
    moves: list[float] = field(factory=list)

    def node(self, kind: str, seconds: float, moves: float, *inputs: int, color: int | None = None) -> int:
        """Add a node that reads `inputs`, of a color of its own unless one is given; return its number."""
        number = len(self.nodes)
        seconds *= self.random.lognormvariate(0.0, 0.1)
        self.nodes.append(
            {
                "id": number,
                "name": f"{kind}_{number}",
                "cpuLatency": 20 * seconds,
                "fpgaLatency": seconds,
                "size": moves * 2.0**22,
                "supportedOnFpga": 1,
                "isBackwardNode": 0,
                "colorClass": number if color is None else color,
            }
        )
        self.edges.append([])
        self.moves.append(moves)
        for each in inputs:
            self.edges[each].append(number)
        return number

    def weighted(self, kind: str, seconds: float, moves: float, weight: float, *inputs: int) -> int:
        """Add a node with a weight, which is a node of the same color before it."""
        number = self.node(f"{kind}_weight", 0.0, weight)
        return self.node(kind, seconds, moves, number, *inputs, color=number)

    def train(self) -> None:
        """Add a backward node for each node, which reads what the gradient needs and has its color."""
        forward = len(self.nodes)
        for number in range(forward - 1, -1, -1):
            about = self.nodes[number]
            self.node(f"{about['name']}_grad", 0.0, self.moves[number], color=about["colorClass"])
            seconds = 2 * about["fpgaLatency"] * self.random.lognormvariate(0.0, 0.1)
            self.nodes[-1] |= {
                "isBackwardNode": 1,
                "fpgaLatency": seconds,
                "cpuLatency": 20 * seconds,
                "size": about["size"],
            }
        last = 2 * forward - 1
        for number in range(forward):
            for reader in self.edges[number][:]:
                self.edges[last - reader].append(last - number)
                if self.nodes[number]["fpgaLatency"] > 0:
                    self.edges[number].append(last - reader)

    def input(self, accelerators: int, memory: float = MEMORY) -> dict[str, Any]:
        """Return the graph in the published form."""
        return {
            "maxFPGAs": accelerators,
            "maxSizePerFPGA": memory,
            "maxCPUs": 1,
            "nodes": self.nodes,
            "edges": [
                {"sourceId": number, "destId": reader, "cost": self.moves[number]}
                for number, readers in enumerate(self.edges)
                for reader in dict.fromkeys(readers)
            ],
        }


def _drawing(seed: int) -> Drawing:
    return Drawing(random.Random(seed))  # noqa: S311 - made-up costs, no secret


def transformer(blocks: int, *, training: bool, accelerators: int, seed: int = 0) -> dict[str, Any]:
    """Return an encoder by operators, with its embeddings and the head of a language model."""
    draw = _drawing(seed)
    table = draw.weighted("embedding", 0.2, 0.75, 7.3)
    mask = draw.node("mask", 0.01, 0.01)
    here = _normalize(draw, table)
    for _ in range(blocks):
        here = _block(draw, here, mask)
    head = _normalize(draw, draw.weighted("transform", 0.4, 0.75, 0.03, here))
    scores = draw.weighted("scores", 8.0, 170.0, 7.3, head)
    draw.node("loss", 10.0, 0.01, draw.weighted("scores_bias", 3.0, 170.0, 0.06, scores))
    if training:
        draw.train()
    return draw.input(accelerators)


def _normalize(draw: Drawing, before: int) -> int:
    number = draw.weighted("normalize", 0.2, 0.75, 0.01, before)
    draw.node("mean", 0.0, 0.001, number, color=draw.nodes[number]["colorClass"])
    return number


def _block(draw: Drawing, before: int, mask: int) -> int:
    heads = []
    for name in ("query", "key", "value"):
        product = draw.weighted(name, 0.4, 0.75, 0.03, before)
        biased = draw.weighted(f"{name}_bias", 0.05, 0.75, 0.001, product)
        heads.append(draw.node("transpose", 0.03, 0.75, draw.node("reshape", 0.0, 0.75, biased)))
    scaled = draw.node("divide", 0.1, 1.5, draw.node("matmul", 0.3, 1.5, heads[0], heads[1]))
    masked = draw.node("add", 0.1, 1.5, scaled, mask)
    attention = draw.node("dropout", 0.1, 1.5, draw.node("softmax", 0.2, 1.5, masked))
    mixed = draw.node("transpose", 0.03, 0.75, draw.node("matmul", 0.3, 0.75, attention, heads[2]))
    joined = draw.weighted("dense", 0.4, 0.75, 0.03, draw.node("reshape", 0.0, 0.75, mixed))
    joined = draw.node("dropout", 0.05, 0.75, draw.weighted("bias", 0.05, 0.75, 0.001, joined))
    middle = _normalize(draw, draw.node("add", 0.05, 0.75, joined, before))
    wide = draw.weighted("wide", 1.5, 3.0, 1.0, middle)
    wide = draw.node("gelu", 0.2, 3.0, draw.weighted("wide_bias", 0.15, 3.0, 0.01, wide))
    narrow = draw.weighted("narrow_bias", 0.05, 0.75, 0.001, draw.weighted("narrow", 1.5, 0.75, 1.0, wide))
    return _normalize(draw, draw.node("add", 0.05, 0.75, draw.node("dropout", 0.05, 0.75, narrow), middle))


def residual(blocks: int, *, training: bool, accelerators: int, seed: int = 0) -> dict[str, Any]:
    """Return a residual network by operators: convolutions, normalizations, activations and sums."""
    draw = _drawing(seed)
    here = _convolution(draw, 4.0, 3.0, draw.node("image", 0.0, 0.6))
    for number in range(blocks):
        stage = 4 * number // blocks
        size = 2.0 / 2**stage
        before = here if number % (blocks // 4 or 1) else _convolution(draw, 1.0, size, here)
        here = _convolution(draw, 0.5, size / 4, before)
        here = _convolution(draw, 1.2, size / 4, here)
        here = _convolution(draw, 0.5, size, here, last=True)
        here = draw.node("relu", 0.1 * size, size, draw.node("add", 0.15 * size, size, here, before))
    draw.weighted("dense", 0.2, 0.001, 0.01, draw.node("pool", 0.1, 0.01, here))
    if training:
        draw.train()
    return draw.input(accelerators)


def _convolution(draw: Drawing, seconds: float, size: float, before: int, *, last: bool = False) -> int:
    number = draw.weighted("convolution", seconds, size, 0.01 / max(size, 0.05), before)
    number = draw.weighted("normalize", 0.15 * size, size, 0.001, number)
    return number if last else draw.node("relu", 0.1 * size, size, number)


def inception(modules: int, *, training: bool, accelerators: int, seed: int = 0) -> dict[str, Any]:
    """Return a network of modules with four branches each, by layers."""
    draw = _drawing(seed)
    here = draw.node("stem", 3.0, 0.1, draw.node("image", 0.0, 0.02))
    for _ in range(modules):
        ends = []
        for depth in (1, 2, 3, 1):
            end = here
            for _ in range(depth):
                end = draw.node("convolution", draw.random.uniform(0.3, 2.5), 0.03, end)
                end = draw.node("relu", 0.1, 0.03, draw.node("normalize", 0.4, 0.03, end))
            ends.append(end)
        here = draw.node("concatenate", 0.2, 0.1, *ends)
    draw.node("dense", 0.3, 0.001, draw.node("pool", 0.1, 0.01, here))
    if training:
        draw.train()
    return draw.input(accelerators)


def translation(layers: int, *, training: bool, accelerators: int, seed: int = 0) -> dict[str, Any]:
    """Return a recurrent encoder and decoder with attention to all of the encoder, by layers."""
    draw = _drawing(seed)
    here = draw.weighted("embedding", 0.1, 0.007, 0.1, draw.node("words", 0.0, 0.0001))
    states = []
    for number in range(layers):
        cell = draw.weighted("recurrent", 10.0 * (2 if number == 0 else 1), 0.007, 0.05, here)
        drop = draw.node("dropout", 0.12, 0.007, cell)
        here = drop if number in PLAIN else draw.node("add", 0.14, 0.007, drop, here)
        states.append(draw.node("state", 0.0, 0.0001, cell))
    memory = here
    here = draw.weighted("embedding", 0.1, 0.007, 0.1, draw.node("words", 0.0, 0.0001))
    attention = None
    for number in range(layers):
        inputs = [here, states[number]] + ([] if attention is None else [attention])
        cell = draw.weighted("recurrent", 10.0, 0.007, 0.05, *inputs)
        drop = draw.node("dropout", 0.12, 0.007, cell)
        attention = attention or draw.weighted("attention", 6.0, 0.007, 0.01, cell, memory)
        here = drop if number in PLAIN else draw.node("add", 0.14, 0.007, drop, here)
    draw.weighted("scores", 24.0, 2.0, 0.1, here)
    if training:
        draw.train()
    return draw.input(accelerators)


def tangle(count: int, reach: int, *, accelerators: int, seed: int = 0) -> dict[str, Any]:
    """Return a graph without structure: each node reads from one to three of those right before it.

    Args:
        count: How many nodes it has.
        reach: How many nodes before it a node may read from.
        accelerators: How many accelerators there are.
        seed: The seed of all chance.
    """
    draw = _drawing(seed)
    for number in range(count):
        near = range(max(0, number - reach), number)
        inputs = draw.random.sample(near, min(len(near), draw.random.choice((1, 1, 2, 3))))
        draw.node("any", draw.random.lognormvariate(0.0, 1.0), draw.random.lognormvariate(-1.0, 1.0), *inputs)
    return draw.input(accelerators)


GRAPHS: dict[str, Callable[[], dict[str, Any]]] = {
    "translation_training": lambda: translation(8, training=True, accelerators=6),
    "inception_inference": lambda: inception(15, training=False, accelerators=6),
    "inception_training": lambda: inception(15, training=True, accelerators=6),
    "residual_inference": lambda: residual(48, training=False, accelerators=6),
    "residual_training": lambda: residual(48, training=True, accelerators=6),
    "transformer12_training": lambda: transformer(12, training=True, accelerators=6),
    "transformer20_inference": lambda: transformer(20, training=False, accelerators=6),
    "transformer20_training": lambda: transformer(20, training=True, accelerators=6),
    "tangle_inference": lambda: tangle(2000, 40, accelerators=6),
    "wide_tangle_inference": lambda: tangle(2000, 1000, accelerators=6),
}
"""The graphs of the table in docs/placement-search.md, by name."""
