"""Make a template from a traced graph: the necessary nodes, named after the model, each with its role."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from attrs import field, frozen

from compiler.graph.fragments import made_by
from compiler.graph.tower.copied_rows import copied_rows
from compiler.graph.tower.network.batch_norm import TracedMomentExchange
from compiler.graph.tower.simplify import Shape, Simplifier
from compiler.graph.tower.template import Gradient, LossPart, MomentExchange, Template, TensorInfo
from compiler.step.record import Fragment, Made, Role

_GRADIENT = re.compile(r"^gradients/(?:part_\d+/)?(?:(?P<forward>.+)_grad/)?")
_GRADIENTS = re.compile(r"^gradients/(?:part_\d+/)?")


@frozen
class TracedPart:
    """A part of the loss as `LossPart` describes it, by tensors of the graph.

    Attributes:
        value: The part of the loss.
        weight: The weight, or None.
        gradients: The gradients by the names of the weights.
    """

    value: tf.Tensor
    weight: tf.Tensor | None = None
    gradients: Mapping[str, Any] = field(factory=dict)

    def results(self) -> Iterator[tf.Tensor]:
        """Yield every tensor of the part."""
        yield self.value
        if self.weight is not None:
            yield self.weight
        for each in self.gradients.values():
            yield from (each.values, each.indices) if isinstance(each, tf.IndexedSlices) else (each,)


@frozen
class TracedTensors:
    """The results of a trace, as tensors of the graph, of which `Template` keeps the names.

    Attributes:
        outputs: The outputs of the model, in the order of `ModelGraph.outputs`.
        losses: The parts of the tower's loss, which is their sum.
        state_updates: The new value of each statistic, by the path of its weight.
        metric_states: What the tower's examples add to the states of each metric, by the name of the metric.
        metrics: For each metric, the Keras object that computes the result from the states.
        weights: The port of each weight, by the path of the weight.
        inputs: The port of each input of the model, by the name of the input.
        seed: The port of the tower's random state, two uint32 numbers; None if no random numbers are drawn.
        scale: The port of the factor on the loss before differentiation; None if there is no factor.
        inverse_share: The port of one over the tower's share in a mean; None if nothing needs it.
        exchanges: What batch normalizations exchange with other towers.
        joins_examples: Whether one of the losses is not a mean over examples, but depends on the batch as a
            whole.
        joined_states: The statistics that are declared to be joined over clones.
    """

    outputs: Sequence[tf.Tensor]
    losses: Sequence[TracedPart]
    state_updates: Mapping[str, tf.Tensor]
    metric_states: Mapping[str, tuple[tf.Tensor, ...]]
    metrics: Mapping[str, Any]
    weights: Mapping[str, tf.Tensor]
    inputs: Mapping[str, tf.Tensor]
    seed: tf.Tensor | None
    scale: tf.Tensor | None
    inverse_share: tf.Tensor | None
    exchanges: Sequence[TracedMomentExchange] = ()
    joins_examples: bool = False
    joined_states: frozenset[str] = frozenset()

    def results(self) -> Iterator[tf.Tensor]:
        """Yield every tensor that the rest of the graph may use."""
        yield from self.outputs
        for part in self.losses:
            yield from part.results()
        yield from self.state_updates.values()
        for states in self.metric_states.values():
            yield from states
        for exchange in self.exchanges:
            yield from exchange.sent
            for pair in exchange.gradients_sent:
                yield from pair


def trim(
    graph: tf.Graph, traced: TracedTensors, paths: Mapping[str, str], *, share_constants: bool = True
) -> Template:
    """Return the template of a traced tower.

    Args:
        graph: The graph in which the tower was traced.
        traced: The tensors of the trace.
        paths: The path in the model of each layer, by the name that Keras has for it.
        share_constants: Whether equal constants become one node. They must not if rules place parts of a
            tower.
    """
    needed = ancestors(each.op for each in traced.results())
    graph_def = graph.as_graph_def()
    simplifier = Simplifier(lambda tensor: _shape(graph, tensor), share_constants)
    simple = simplifier.run(node for node in graph_def.node if node.name in needed)

    def resolved(tensor: tf.Tensor) -> str:
        base = tensor.op.name
        return simplifier.resolve(base if tensor.value_index == 0 else f"{base}:{tensor.value_index}")

    kept = _reachable(simple, [resolved(each) for each in traced.results()])
    rename = _Renamer(paths)
    names = {node.name: rename(node.name) for node in kept}
    for node in kept:
        _rewrite(node, names)
    for function in graph_def.library.function:
        for node in function.node_def:
            _free(node)
    trimmed = tf.compat.v1.GraphDef(node=kept, library=graph_def.library, versions=graph_def.versions)

    def name(tensor: tf.Tensor) -> str:
        base, colon, index = resolved(tensor).partition(":")
        return f"{names[base]}{colon}{index}"

    def port(tensor: tf.Tensor | None) -> str | None:
        return names.get(tensor.op.name) if tensor is not None else None

    by_name, before = {node.name: node for node in trimmed.node}, {new: old for old, new in names.items()}

    def shape_of(tensor: str) -> Shape | None:
        base, colon, index = tensor.partition(":")
        return _shape(graph, f"{before[base]}{colon}{index}")

    def gradient(each: Any) -> Gradient:
        if not isinstance(each, tf.IndexedSlices):
            return Gradient(name(each))
        values = name(each.values)
        return Gradient(values, name(each.indices), copied_rows(values, by_name, shape_of))

    made = {
        new: made_by(graph.get_operation_by_name(old)) if old in needed else _of_constant(by_name[new])
        for new, old in before.items()
    }
    follows = _follows(trimmed)
    return Template(
        fragment=Fragment(trimmed, made=made),
        weights={weight: port(tensor) or "" for weight, tensor in traced.weights.items() if port(tensor)},
        inputs={each: port(tensor) or "" for each, tensor in traced.inputs.items() if port(tensor)},
        seed=port(traced.seed),
        scale=port(traced.scale),
        inverse_share=port(traced.inverse_share),
        roles={node.name: _role(node.name) for node in trimmed.node},
        follows=follows,
        outputs=tuple(map(name, traced.outputs)),
        losses=tuple(_part(each, name, gradient) for each in traced.losses),
        state_updates={weight: name(each) for weight, each in traced.state_updates.items()},
        metric_states={metric: tuple(map(name, states)) for metric, states in traced.metric_states.items()},
        metrics=traced.metrics,
        results={name(each): _info(each) for each in traced.results()},
        exchanges=tuple(_exchange(each, name, port) for each in traced.exchanges),
        joins_examples=traced.joins_examples,
        joined_states=traced.joined_states,
    )


def _of_constant(node: Any) -> Made:
    """Return the type and shape of a constant that takes the place of ops."""
    value = node.attr["value"].tensor
    return [(tf.as_dtype(value.dtype).name, tuple(each.size for each in value.tensor_shape.dim))]


def _info(tensor: tf.Tensor) -> TensorInfo:
    shape = tuple(tensor.shape.as_list()) if tensor.shape.rank is not None else None
    return TensorInfo(tensor.dtype.name, shape)


def _exchange(traced: TracedMomentExchange, name: Any, port: Any) -> MomentExchange:
    mean = traced.sent[0]
    return MomentExchange(
        name=traced.name,
        sent=tuple(map(name, traced.sent)),
        received=tuple(map(port, traced.received)),
        gradients_sent=tuple(tuple(map(name, each)) for each in traced.gradients_sent),
        gradients_received=tuple(tuple(map(port, each)) for each in traced.gradients_received),
        dtype=mean.dtype.name,
        shape=tuple(mean.shape.as_list()),
    )


def _part(traced: TracedPart, name: Any, gradient: Any) -> LossPart:
    weight = name(traced.weight) if traced.weight is not None else None
    gradients = {weight: gradient(each) for weight, each in traced.gradients.items()}
    return LossPart(name(traced.value), weight, gradients)


def _shape(graph: tf.Graph, tensor: str) -> Shape:
    base, _, index = tensor.partition(":")
    shape = graph.get_operation_by_name(base).outputs[int(index or 0)].shape
    return None if shape.rank is None else tuple(shape.as_list())


def _reachable(nodes: Sequence[Any], results: Sequence[str]) -> list[Any]:
    """Return the nodes that the results depend on, in their order."""
    by_name = {node.name: node for node in nodes}
    seen: set[str] = set()
    pending = [each.partition(":")[0] for each in results]
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending += [each.removeprefix("^").partition(":")[0] for each in by_name[name].input]
    return [node for node in nodes if node.name in seen]


def ancestors(ops: Iterable[Any]) -> set[str]:
    """Return the names of the ops and of everything they depend on."""
    seen: set[str] = set()
    pending = list(ops)
    while pending:
        op = pending.pop()
        if op.name not in seen:
            seen.add(op.name)
            pending += [each.op for each in op.inputs]
            pending += op.control_inputs
    return seen


class _Renamer:
    """Gives nodes the names of the model's layers: `encoder_query/MatMul` -> `encoder/query/MatMul`."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = {keras: path for keras, path in paths.items() if keras != path}

    def __call__(self, name: str) -> str:
        if not self._paths:
            return name
        match = _GRADIENTS.match(name)
        own = match.group() if match is not None else ""
        scope, slash, rest = name.removeprefix(own).partition("/")
        path = self._paths.get(scope)
        if path is None:  # a layer called for the second time: `query_1`
            base, _, number = scope.rpartition("_")
            path = f"{self._paths[base]}_{number}" if base in self._paths and number.isdigit() else None
        return f"{own}{path}{slash}{rest}" if path is not None else name


def _rewrite(node: Any, names: Mapping[str, str]) -> None:
    node.name = names[node.name]
    _free(node)
    for at, each in enumerate(node.input):
        control = "^" if each.startswith("^") else ""
        base, colon, index = each.removeprefix("^").partition(":")
        node.input[at] = f"{control}{names[base]}{colon}{index}"


def _free(node: Any) -> None:
    """Remove a node's device and colocations: devices are given op by op, and a loop's body runs with its op.

    The colocations of a loop's body would join the bodies of all clones.
    """
    node.device = ""
    if "_class" in node.attr:
        del node.attr["_class"]


def _role(name: str) -> Role:
    if name.startswith("gradients/"):
        return "gradient"
    if name.startswith("metrics/"):
        return "metric"
    return "forward"


def _follows(graph_def: Any) -> dict[str, str]:
    """Map gradient ops to the forward op that they differentiate.

    Other ops among them (sums of gradients, zeros for missing ones) follow the op that made their first
    input.
    """
    follows: dict[str, str] = {}
    for node in graph_def.node:
        match = _GRADIENT.match(node.name)
        if match is None:
            continue
        forward = match.group("forward")
        if forward is None and node.input:
            first = node.input[0].removeprefix("^").partition(":")[0]
            own = _role(first) == "forward" and not first.startswith("ports/")
            forward = follows.get(first, first if own else None)
        if forward is not None:
            follows[node.name] = forward
    return follows
