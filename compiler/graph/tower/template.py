"""A traced tower: one GraphDef with ports for weights, inputs and seeds, stamped once for each clone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Literal, TypeAlias

import tensorflow as tf
from attrs import evolve, field, frozen

from compiler.figures import reached
from compiler.plan import VariableInfo
from compiler.shards import Shard
from compiler.step.record import Fragment, Role, Tensor

PORTS = "ports"
"""The scope of the ports."""

Join: TypeAlias = Literal["first", "mean", "sum"]
"""How the new values that clones have for a state become one: the first, their mean, or all changes."""


@frozen
class WeightInfo(VariableInfo):
    """A weight as Keras made it, or a piece of one; its name is the same in every mode and placement."""

    # Makes its first value; called as `initializer(shape, dtype)`.
    initializer: Any = field(default=None, repr=False, eq=False)
    regularizer: Any = field(default=None, repr=False, eq=False)
    # What is applied to it after an update, or None.
    constraint: Any = field(default=None, repr=False, eq=False)
    # How its layer says that clones join it if it changes without gradients, or None.
    declared: Join | None = None
    of_class: str = ""  # the class of the user's layer that it is of, or empty for a layer of Keras

    def joined(self, batch_norm: str) -> Join:
        """Return how clones join its new values if it changes without gradients.

        What is not a floating-point number has no mean.
        """
        if self.declared == "sum":
            return "sum"
        means = self.declared == "mean" or (self.declared is None and batch_norm == "mean")
        return "mean" if means and "float" in self.dtype else "first"

    def piece(self, shard: Shard, **changes: Any) -> WeightInfo:
        """Return what is known of a piece, for which something else may be different as well."""
        size = Tensor("", self.dtype, shard.shape).bytes or 0
        return evolve(self, name=shard.name, shape=shard.shape, bytes=size, shard=shard, **changes)


@frozen
class CopiedRows:
    """Rows of which each comes several times in a row, by tensor names."""

    rows: str  # the rows, of which each is there once
    times: int
    divisor: str | None
    shape: tuple[int, ...]  # the shape of the rows, with axes of size one for the copies
    made_by: str


@frozen
class Gradient:
    """A gradient, by tensors of the graph in which it is traced, or by their names in a template."""

    values: str  # the gradient, or the gradients of rows of an embedding
    indices: str | None = None  # the numbers of these rows, or None if the gradient is dense
    copied: CopiedRows | None = None


@frozen
class LossPart:
    """A part of a tower's loss, by tensor names.

    If there is a weight, the loss is `value / weight`. The sum of all clones' values is divided by the sum of
    all clones' weights, so no clone divides by its own weight.
    """

    value: str  # the part of the loss, a mean over the examples of the tower
    # The mean over the examples of what each of them counts, which depends on the data: the number of
    # positions that are not masked. None if every example counts the same.
    weight: str | None = None
    # The gradients of `value` by the names of the weights.
    gradients: Mapping[str, Gradient] = field(factory=dict)

    @property
    def tensors(self) -> Iterator[str]:
        """The names of all its tensors except those of the gradients."""
        yield self.value
        if self.weight is not None:
            yield self.weight


@frozen
class MomentExchange:
    """What a batch normalization exchanges with the same layer of the other clones, by tensor and port names.

    While a tower is traced, there are tensors in place of the names.
    """

    name: str  # the name of the exchange, the same in all towers
    sent: tuple[str, ...]  # mean, variance and number of elements of the tower's own batch
    # The ports for the same figures of the whole batch, each None if the tower does not use it.
    received: tuple[str | None, ...]
    dtype: str
    shape: tuple[int | None, ...]  # the shape of mean and variance
    # For each part of the loss, its gradients by the received mean and variance.
    gradients_sent: list[tuple[str, ...]] = field(factory=list)
    # The ports for the sums of these over all towers, each None if it is not used.
    gradients_received: list[tuple[str | None, ...]] = field(factory=list)


@frozen(kw_only=True, eq=False)
class TowerResults:
    """What the rest of a step uses of a tower, and the ports through which it gives something to the tower.

    A tower that is traced has tensors of the graph here, and a template their names. These are those inside a
    tower, as in a GraphDef (`node`, or `node:1` for a second output). Ports are placeholders.
    """

    weights: Mapping[str, str]  # the port of each weight
    inputs: Mapping[str, str]
    seed: str | None  # the port of the tower's random state, two uint32; None if no random numbers are drawn
    scale: str | None  # the port of the factor on the loss before differentiation; None if there is no factor
    inverse_share: str | None  # the port of one over the tower's share in a mean; None if nothing needs it
    outputs: tuple[str, ...]  # the outputs of the model, in the order of `ModelGraph.outputs`
    # The parts of the tower's loss, which is their sum. At most one of them has no weight.
    losses: tuple[LossPart, ...]
    state_updates: Mapping[str, str]  # the new value of each statistic
    metric_states: Mapping[str, tuple[str, ...]]  # what the tower's examples add to the states of each metric
    # For each metric, the Keras object that computes the result from the states.
    metrics: Mapping[str, Any] = field(factory=dict, repr=False)
    exchanges: tuple[MomentExchange, ...] = ()  # what batch normalizations exchange with other towers
    # Whether one of the losses is not a mean over examples, but depends on the batch as a whole.
    joins_examples: bool = False
    joined_states: frozenset[str] = frozenset()  # those of them that are declared to be joined over clones

    @property
    def received(self) -> tuple[str, ...]:
        """The ports through which the tower receives tensors that are computed from all clones."""
        ports = [port for each in self.exchanges for port in each.received]
        ports += [port for each in self.exchanges for pair in each.gradients_received for port in pair]
        return tuple(port for port in ports if port is not None)

    @property
    def gradients(self) -> Iterator[Gradient]:
        """The gradients of all parts of the loss."""
        return (each for part in self.losses for each in part.gradients.values())

    @property
    def given_weights(self) -> frozenset[str]:
        """The weights with gradients that the model gives other values, to which gradients are applied."""
        trained = {name for part in self.losses for name in part.gradients}
        return frozenset(trained & self.state_updates.keys())

    @property
    def used(self) -> list[str]:
        """All that the rest of a step may use."""
        found = [*self.outputs, *self.state_updates.values(), *chain(*self.metric_states.values())]
        found += [tensor for part in self.losses for tensor in part.tensors]
        found += [each.values for each in self.gradients]
        found += [each.indices for each in self.gradients if each.indices is not None]
        for each in self.exchanges:
            found += [*each.sent, *chain(*each.gradients_sent)]
        return found


@frozen(kw_only=True, eq=False)
class Template(TowerResults):
    """A tower, traced once. Each is equal to itself alone, so that what follows from it can be kept."""

    fragment: Fragment = field(repr=False)  # the nodes, ports included
    roles: Mapping[str, Role] = field(repr=False)  # the role of each node
    follows: Mapping[str, str] = field(repr=False)  # for a gradient op, the forward op that it differentiates
    # All tensors that the rest of the graph may use, with the shapes that the trace knows.
    results: Mapping[str, Tensor] = field(factory=dict, repr=False)

    @property
    def graph_def(self) -> Any:
        """The nodes, as a GraphDef."""
        return self.fragment.nodes

    @property
    def op_names(self) -> frozenset[str]:
        """The names inside a tower of all ops that are not ports, which globs of rules for ops can match."""
        own = (self.seed, self.scale, self.inverse_share)
        ports = {*self.weights.values(), *self.inputs.values(), *own, *self.received}
        return frozenset(node.name for node in self.graph_def.node if node.name not in ports)


def base_of(tensor: str) -> str:
    """Return the op that makes a tensor, or that a node waits for."""
    return tensor.removeprefix("^").partition(":")[0]


def nodes_before(nodes: Mapping[str, Any], results: Iterable[str]) -> set[str]:
    """Return the names of the nodes on which tensors depend."""
    return {*reached(map(base_of, results), lambda name: map(base_of, nodes[name].input))}


def make_port(dtype: Any, shape: Any, name: str) -> tf.Tensor:
    """Return a port of the tower that is being traced."""
    with tf.name_scope(""):
        return tf.compat.v1.placeholder(dtype, shape, name=f"{PORTS}/{name}")
