"""A model, or a part of it, as a row of nodes: what stands between a Keras model and the text of a spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import define, evolve, field, frozen

from dsl import ir


@frozen
class At:
    """Stands for a tensor among the arguments of a node: `number` is its place among the node's inputs."""

    number: int


@define(eq=False)
class Node:
    """A layer, an operation or a block that is called on values, and makes new ones.

    Attributes:
        kind: As that of a Step; `operation`, `index`, `weight` or `shared` beside it.
        call: What makes the layer, with the name that is written; for an operation, its function with its
            arguments; for an index, its parts; for a shared layer, its name.
        inputs: The values that it is called on, by their numbers in the body.
        outputs: The values that it makes.
        sources: How many of the inputs flow in; the others are among the arguments.
        given: The arguments of the layer's own call.
        name: The name of the layer in Keras if somebody has chosen it, else a word for what it does.
        chosen: Whether somebody has chosen the name.
    """

    kind: Literal["layer", "python", "block", "shared", "operation", "index", "weight"]
    call: ir.Call
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    sources: int = 0
    given: Mapping[str, Any] = field(factory=dict)
    name: str = ""
    chosen: bool = False
    count: int = 1

    def moved(self, places: Mapping[int, int]) -> Node:
        """Return the node with other numbers of values."""
        return evolve(
            self,
            inputs=tuple(places[each] for each in self.inputs),
            outputs=tuple(places[each] for each in self.outputs),
        )


@define(eq=False)
class Body:
    """The model, or a `layer` block.

    Attributes:
        name: Its name.
        inputs: The values that are its inputs, with their names.
        nodes: The nodes, each after those that make its inputs.
        outputs: The values that it gives.
        parameters: The names of its parameters.
        shared: The layers that are used several times, by their names.
    """

    name: str
    inputs: dict[int, str]
    nodes: list[Node] = field(factory=list)
    outputs: list[int] = field(factory=list)
    parameters: tuple[ir.LayerParameter, ...] = ()
    shared: dict[str, ir.Step] = field(factory=dict)

    def uses(self) -> dict[int, int]:
        """Return how often each value is used, as an output too."""
        found: dict[int, int] = {}
        for each in [value for node in self.nodes for value in node.inputs] + self.outputs:
            found[each] = found.get(each, 0) + 1
        return found
