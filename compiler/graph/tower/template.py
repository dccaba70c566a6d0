"""A traced tower: one GraphDef with ports for weights, inputs and seeds, to be stamped once per clone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from attrs import field, frozen

Role = Literal[
    "input",
    "variable",
    "read",
    "forward",
    "gradient",
    "aggregate",
    "update",
    "metric",
    "summary",
    "evaluation",
    "save",
    "init",
]


@frozen
class WeightInfo:
    """A weight as Keras made it, by its name in every mode; `initializer` is called as (shape, dtype)."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    trainable: bool
    bytes: int
    initializer: Any = field(repr=False, eq=False)
    regularizer: Any = field(default=None, repr=False, eq=False)
    constraint: Any = field(default=None, repr=False, eq=False)


@frozen
class Gradient:
    """Tensor names of a gradient: dense, or rows (`values`) of an embedding at `indices`."""

    values: str
    indices: str | None = None


@frozen
class LossPart:
    """A part of a tower's loss, by tensor names: a mean over its examples, and the gradients of that.

    If there is a `weight`, the loss is `value / weight`. The weight is the mean over the examples of what
    each of them counts, which depends on the data: the positions that are not masked. The sum of all clones'
    values is divided by the sum of all clones' weights, so no clone divides by its own weight.
    """

    value: str
    weight: str | None = None
    gradients: Mapping[str, Gradient] = field(factory=dict)

    @property
    def tensors(self) -> Iterator[str]:
        """The names of all its tensors but those of the gradients."""
        yield self.value
        if self.weight is not None:
            yield self.weight


@frozen
class TensorInfo:
    """Type and static shape of a tensor; the shape is None if its rank is unknown."""

    dtype: str
    shape: tuple[int | None, ...] | None


@frozen
class MomentExchange:
    """What a batch normalization exchanges with the same layer of the other clones, by tensor and port names.

    The tower sends the tensors `sent` (mean, variance and number of elements of its own batch) and, for each
    part of the loss, a pair `gradients_sent`. The ports `received` and `gradients_received` take what comes
    back, computed from all clones; a port is None if the tower does not use it. `dtype` and `shape` describe
    the moments.
    """

    name: str
    sent: tuple[str, ...]
    received: tuple[str | None, ...]
    gradients_sent: tuple[tuple[str, ...], ...]
    gradients_received: tuple[tuple[str | None, ...], ...]
    dtype: str
    shape: tuple[int | None, ...]


@frozen
class Template:
    """A tower, traced once.

    Names are those inside a tower, and tensors are named as in a GraphDef (`node`, or `node:1` for a second
    output). Ports are placeholders: `weights` maps a weight to its port, `inputs` a model input. `seed` is
    the port of the tower's random state, None where nothing is drawn; `scale` that of the factor on its loss
    before differentiation; `inverse_share` that of one over the tower's share in a mean. `follows` maps a
    gradient op to the forward op that it differentiates. The sum of `losses` is the tower's loss; at most one
    of them has no weight. `joins_examples` is whether one is no mean over examples, but looks at the batch as
    a whole. `results` are all tensors that the rest of the graph may ask for.
    """

    graph_def: Any = field(repr=False)
    weights: Mapping[str, str]
    inputs: Mapping[str, str]
    seed: str | None
    scale: str | None
    inverse_share: str | None
    roles: Mapping[str, Role] = field(repr=False)
    follows: Mapping[str, str] = field(repr=False)
    output: str
    losses: tuple[LossPart, ...]
    state_updates: Mapping[str, str]
    metric_states: Mapping[str, tuple[str, ...]]
    results: Mapping[str, TensorInfo] = field(factory=dict, repr=False)
    exchanges: tuple[MomentExchange, ...] = ()
    joins_examples: bool = False

    @property
    def received(self) -> tuple[str, ...]:
        """The ports by which something comes in from all clones."""
        ports = [port for each in self.exchanges for port in each.received]
        ports += [port for each in self.exchanges for pair in each.gradients_received for port in pair]
        return tuple(port for port in ports if port is not None)

    @property
    def gradients(self) -> Iterator[Gradient]:
        """The gradients of all parts of the loss."""
        return (each for part in self.losses for each in part.gradients.values())

    @property
    def op_names(self) -> frozenset[str]:
        """The names inside a tower of all that is no port: what globs of rules for ops can match."""
        own = (self.seed, self.scale, self.inverse_share)
        ports = {*self.weights.values(), *self.inputs.values(), *own, *self.received}
        return frozenset(node.name for node in self.graph_def.node if node.name not in ports)
