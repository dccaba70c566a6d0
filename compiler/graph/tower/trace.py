"""Trace one tower of a model: forward pass, loss, gradients, new statistics and metric states.

Layers are called as pure functions: in a Keras stateless scope their variables are replaced by placeholders
(ports), so that outputs and new values of statistics are tensors, and nothing is assigned.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from fnmatch import fnmatchcase
from math import prod
from typing import Any, NoReturn

import keras
import tensorflow as tf
from attrs import define, evolve, field

from compiler.checks.shapes import MOST
from compiler.figures import distinct
from compiler.graph.adapters.keras_private import (
    Merge,
    flattened_layers,
    get_keras_mask,
    initializer_of,
    name_scope_of,
    set_keras_mask,
)
from compiler.graph.fragments import ancestors
from compiler.graph.kept_tensors import discarded_graph, renew_constants, without_tensors
from compiler.graph.tower.network.keras_scope import NamingGraph, draw_nothing, own_names, stateless
from compiler.graph.tower.network.losses import MeasuredLoss, measure, weights_of_examples
from compiler.graph.tower.network.network import Network, flattened, make, metric_for
from compiler.graph.tower.network.normalization import Exchanges, SyncPolicy
from compiler.graph.tower.network.operations import Operation, for_each_example
from compiler.graph.tower.network.own_objects import require_summable
from compiler.graph.tower.network.precision import in_float32, keep_tables, keras_settings, widen_penalties
from compiler.graph.tower.refusals import check_call, check_operation, check_output, outputs_of, refusal
from compiler.graph.tower.template import (
    Gradient,
    Join,
    LossPart,
    Template,
    TowerResults,
    WeightInfo,
    make_port,
)
from compiler.graph.tower.trim import trim
from compiler.graph.user_code import UserCode
from compiler.model.graph import CallNode, LayerNode, ModelGraph, ObjectiveNode, TensorTermNode
from compiler.step.record import Tensor
from dsl.diagnostics import Diagnostic, SpecError
from dsl.errors import layers as tensor_errors
from dsl.errors.plan import cannot_be_saved, random_predictions, shape_of_the_pass
from dsl.source import Span

_JOINS: dict[str, Join] = {"only_first_replica": "first", "mean": "mean", "sum": "sum"}
_OF_KERAS = (keras.layers.BatchNormalization, keras.layers.SpectralNormalization)  # whose states are known
SEED_STATE = "seed_generator_state"  # Keras's name for the state of every SeedGenerator


@define
class Tracer:
    """Traces towers of one model. All traces share its layers, which the first one builds."""

    model: ModelGraph
    seed: int
    precision: str = "float32"  # the dtype policy of the layers
    base: str = field(default=".", eq=False)
    share_constants: bool = True  # whether equal constants become one node
    # Which layers normalize by the batches of all clones, or None if there is one clone.
    sync: SyncPolicy | None = None
    freeze: tuple[str, ...] = ()
    # The weights by name, in the order in which they were created, once a tower has been traced.
    weights: dict[str, WeightInfo] = field(factory=dict, eq=False)
    # The towers that have been traced, by the number of their examples.
    templates: dict[int | None, Template] = field(factory=dict, eq=False, repr=False)
    _network: Network | None = field(default=None, eq=False, repr=False)
    _names: dict[int, str] = field(factory=dict, eq=False, repr=False)  # by the id of a Keras variable
    _shapes: dict[int, tuple[int | None, ...]] = field(factory=dict, eq=False, repr=False)  # in training

    def trace(self, batch: int | None, *, training: bool) -> Template:
        """Return the template of a tower.

        Args:
            batch: The number of examples, or None for any number.

        Raises:
            SpecError: Keras refuses a step. The diagnostic has its span.
        """
        settings = own_names(), keras_settings(self.precision), _seeded(self.seed)
        tracing = NamingGraph(share_constants=self.share_constants)
        with tracing.as_default() as graph, stateless() as scope, ExitStack() as stack:
            for each in settings:
                stack.enter_context(each)
            if self._network is None:
                with discarded_graph() as apart:  # a functional model uses names of scopes when it is made
                    self._network = Network.of(self.model, base=self.base, towers=True)
                    without_tensors(self._network.layers, apart)
            exchanges = Exchanges(self.sync, graph) if self.sync is not None and training else None
            trace = _Trace(self, self._network, graph, scope, batch, training, exchanges)
            try:
                template = trace.run()
            except SpecError as fault:
                changed = None if training else trace.changed_shape(self._shapes, fault.diagnostics[0].span)
                if changed is None:
                    raise
                raise SpecError([changed]) from fault
            if training:
                self._shapes = trace.shapes()
            return template

    def name_of(self, variable: Any) -> str:
        """Return the weight name of a Keras variable of the network."""
        return self._names[id(variable)]

    def register(self, variable: Any, node: LayerNode, layer: Any) -> WeightInfo:
        """Name a Keras variable. The name is the same in every mode and placement."""
        known = self._names.get(id(variable))
        if known is not None:
            return self.weights[known]
        relative = variable.path.removeprefix(node.keras_name + "/")
        name = distinct(f"{node.path}/{relative}", self.weights)
        user = UserCode(node.label, node.span)
        shape, dtype = tuple(variable.shape), variable.dtype
        info = WeightInfo(
            name=name,
            shape=shape,
            dtype=dtype,
            trainable=bool(variable.trainable),
            bytes=Tensor("", dtype, shape).bytes or 0,
            initializer=user.guarded(initializer_of(variable), "initializer", tf.TensorShape),
            regularizer=user.guarded(variable.regularizer, "regularizer", lambda _: ()),
            constraint=user.guarded(variable.constraint, "constraint", lambda weight: weight.shape),
            declared=_JOINS.get(variable.aggregation),
            of_class=_class_of_user(layer, variable),
        )
        self._names[id(variable)] = name
        self.weights[name] = info
        return info

    def frozen(self, layer: Any) -> None:
        """Freeze those weights of a layer that a glob matches. All of them must have been registered.

        A layer, or a layer inside it, all of whose weights match is frozen as `trainable = false` does it, so
        that a batch normalization uses its moving statistics and keeps them. If only some match, the others
        are trained, and statistics move.
        """
        if not self.freeze:
            return
        for part in flattened_layers(layer):
            names = [self._names[id(each)] for each in part.variables if each.name != SEED_STATE]
            if names and all(map(self._is_frozen, names)):
                part.trainable = False
        for variable in layer.variables:
            if variable.name != SEED_STATE:
                name = self._names[id(variable)]
                variable.trainable = variable.trainable and not self._is_frozen(name)
                self.weights[name] = evolve(self.weights[name], trainable=bool(variable.trainable))

    def _is_frozen(self, name: str) -> bool:
        return any(fnmatchcase(name, glob) for glob in self.freeze)


@define
class _Trace:
    tracer: Tracer
    network: Network
    graph: NamingGraph
    scope: Any
    batch: int | None
    training: bool
    exchanges: Exchanges | None = None
    ports: dict[str, tf.Tensor] = field(factory=dict)  # weight name -> placeholder
    variables: dict[str, Any] = field(factory=dict)  # weight name -> Keras variable
    values: dict[int, Any] = field(factory=dict)  # value of the model graph -> tensor
    repeated: dict[int, Any] = field(factory=dict)  # the same, once for each example
    seed: tf.Tensor | None = None
    random_states: list[tuple[tf.Tensor, CallNode]] = field(factory=list)
    added: list[Any] = field(factory=list)  # losses that layers have added, each call of a layer its own
    inverse_share: tf.Tensor | None = None

    @property
    def model(self) -> ModelGraph:
        return self.tracer.model

    def run(self) -> Template:
        inputs = {each.name: self._input(each.name, each.dtype, each.shape) for each in self.model.inputs}
        self.values = {each.value: inputs[each.name] for each in self.model.inputs}
        for call in self.model.calls:
            with _located(self, call):
                self.values |= zip(call.values, self._call(call), strict=True)
                self._require_plain_outputs(call)
        losses, joins = self._losses()
        found = {each.name: self._metric(each) for each in self.model.metrics}
        scale = make_port(tf.float32, (), "scale") if self.training else None
        updates = {name: self.scope.get_current_value(self.variables[name]) for name in self.ports}
        changed = {name: value for name, value in updates.items() if value is not self.ports[name]}
        traced = TowerResults(
            outputs=tuple(self._of_examples(each.value) for each in self.model.outputs),
            losses=self._differentiated(losses, scale) if scale is not None else tuple(losses),
            state_updates=changed,
            metric_states={name: states for name, (_, states) in found.items()},
            metrics={name: metric for name, (metric, _) in found.items()},
            weights=self.ports,
            inputs=inputs,
            seed=self.seed,
            scale=scale,
            inverse_share=self.inverse_share,
            exchanges=tuple(self.exchanges.found) if self.exchanges is not None else (),
            joins_examples=joins,
            joined_states=frozenset(
                name for name in changed if self.tracer.weights[name].declared in ("mean", "sum")
            ),
        )
        paths = {each.keras_name: each.path for each in self.model.layers}
        template = trim(self.graph, traced, paths, share_constants=self.tracer.share_constants)
        if not self.training and template.seed is not None:
            self._refuse_draws(traced)
        return template

    def _require_plain_outputs(self, call: CallNode) -> None:
        """Raise SpecError if a call makes an output of the model that files of predictions cannot hold."""
        outputs = {each.value for each in self.model.outputs}
        for value in outputs.intersection(call.values):
            if not isinstance(self.values[value], tf.Tensor):
                kind = "ragged" if isinstance(self.values[value], tf.RaggedTensor) else "sparse"
                reason = f"an output is a plain tensor, and this one is {kind}"
                label = self.model.layers[call.layer].label
                raise SpecError([cannot_be_saved(call.span, what=label, reason=reason)])

    def shapes(self) -> dict[int, tuple[int | None, ...]]:
        """Return the shape of each tensor of the model so far, without the batch axis."""
        return {
            value: tuple(tensor.shape[1:])
            for value, tensor in self.values.items()
            if isinstance(tensor, tf.Tensor) and tensor.shape.rank
        }

    def changed_shape(
        self, trained: Mapping[int, tuple[int | None, ...]], failed: Span | None
    ) -> Diagnostic | None:
        """Return a report of the first step that gives another shape than in training, or None.

        Args:
            trained: The shape of each tensor in training, without the batch axis.
        """
        shapes = self.shapes()
        for call in self.model.calls:
            for value in call.values:
                before, now = trained.get(value), shapes.get(value)
                if before is not None and now is not None and before != now:
                    step = self.model.layers[call.layer].call.name
                    return shape_of_the_pass(
                        call.span,
                        step=step,
                        trained=before,
                        evaluated=now,
                        failed=None if failed == call.span else failed,
                        crops=step.rpartition(".")[2] == "RandomCrop",
                    )
        return None

    def _refuse_draws(self, traced: TowerResults) -> NoReturn:
        """Raise SpecError at the first step whose random state the results depend on without training.

        A random state belongs to a tower and a step of training, and predictions have neither.
        """
        used: list[Any] = traced.used
        needed = ancestors(each.op for each in used)
        call = next(call for state, call in self.random_states if state.op.name in needed)
        step = self.model.layers[call.layer].label
        raise SpecError([random_predictions(call.span, step=step)])

    def _input(self, name: str, dtype: str, shape: tuple[int | None, ...]) -> tf.Tensor:
        return make_port(dtype, (self.batch, *shape), f"inputs/{name}")

    def _call(self, call: CallNode) -> Sequence[Any]:
        """Return the tensors that a call makes, in the order of `call.values`."""
        node, layer = self.model.layers[call.layer], self.network.layers[call.layer]
        values = self.network.gathered(call, self.values, self._of_examples)
        if isinstance(layer, Operation):
            with tf.name_scope(node.keras_name):
                made = self.network.apply(call, values)
            found = outputs_of(made, node.label, call)
            check_operation(self.network, call, found, values, self.network.repeated(call, self.values))
            return found
        sources = values[: call.sources]
        check_call(layer, node.label, sources, call.span)
        if not layer.built:
            self._build(call, values)
            if node.frozen:
                _freeze(layer)
        with name_scope_of(layer):
            self._connect(layer, node, call)
            renew_constants(layer)
            keep_tables(layer)
            widen_penalties(layer)
            if not self.model.draws:
                draw_nothing(layer)
            within = self.exchanges.within(layer, node.path) if self.exchanges is not None else nullcontext()
            with within:
                effects = len(self.graph.effects)
                made = self.network.apply(call, values, training=self.training)
                made = self._after_effects(made, effects)
                self.added += self.scope.losses
                self.scope.losses.clear()  # else the next call of the same layer would drop them
        found = outputs_of(made, node.label, call)
        stacks = isinstance(layer, Merge) or node.kind == "python"
        check_output(found[0], node.label, sources[:1] if stacks else sources, call.span)
        return found

    def _after_effects(self, made: Any, before: int) -> Any:
        """Return what was made, after the checks and prints among the effects since then.

        Keras calls objects in functions of TensorFlow, which run such ops in any case.
        """
        effects = self.graph.effects[before:]
        tensors = tf.nest.flatten(made, expand_composites=True) if effects else []
        needed = ancestors(each.op for each in tensors)
        effects = [each for each in effects if each.name not in needed]
        if not effects:
            return made
        # A check in a branch belongs to what the branch makes, not to the op that runs one of two branches.
        done = [tf.identity(each) for op in effects for each in op.outputs]
        with tf.control_dependencies([*done, *effects]):
            after = tf.nest.map_structure(tf.identity, made)
        for old, new in zip(flattened(made), flattened(after), strict=True):
            if get_keras_mask(old) is not None:
                set_keras_mask(new, get_keras_mask(old))
        return after

    def _build(self, call: CallNode, values: list[Any]) -> None:
        """Make the variables of a layer, in a graph that is discarded.

        The shapes of its arguments are enough for most layers; others are called.
        """
        with discarded_graph() as apart:
            twins = [_twin(each) for each in values]
            if not self.network.build(call, twins, training=self.training):
                self.network.apply(call, twins, training=self.training)
                self.scope.losses.clear()
            without_tensors(self.network.layers[call.layer], apart)

    def _connect(self, layer: Any, node: LayerNode, call: CallNode) -> None:
        """Replace the layer's variables by ports, and the states of its seeds by the tower's random state."""
        for at, variable in enumerate(layer.variables):
            if variable.name == SEED_STATE:
                self._connect_seed(variable, f"{node.path}/{at}", call)
                continue
            info = self.tracer.register(variable, node, layer)
            if info.name not in self.ports:
                port = make_port(info.dtype, info.shape, f"weights/{info.name}")
                self.ports[info.name] = port
                self.variables[info.name] = variable
                self.scope.add_update((variable, port))
        self.tracer.frozen(layer)

    def _connect_seed(self, variable: Any, name: str, call: CallNode) -> None:
        """Give a random layer a stream of its own: the tower's seed, mixed with the name of the layer."""
        if self.seed is None:
            self.seed = make_port(tf.uint32, (2,), "seed")
        own = tf.constant([zlib.crc32(name.encode()), 0], tf.uint32)
        state = tf.bitwise.bitwise_xor(self.seed, own)
        self.random_states.append((state, call))
        self.scope.add_update((variable, tf.cast(state, variable.dtype)))

    def _losses(self) -> tuple[list[LossPart], bool]:
        """Return the parts of the loss, and whether one of them depends on the batch as a whole.

        Each loss that has a weight that depends on the data is a part by itself. All others are the first
        part.
        """
        found = [self._objective_loss(each) for each in self.model.losses]
        terms = [each.value for each in found if each.weight is None]
        terms += [self._tensor_term(each) for each in self.model.tensor_terms]
        with tf.name_scope("loss/"):
            terms += [tf.cast(each, tf.float32) for each in self.added]
            parts = [LossPart(_sum(terms))] if terms else []
        parts += [LossPart(each.value, each.weight) for each in found if each.weight is not None]
        return parts, any(each.joins_examples for each in found)

    def _tensor_term(self, node: TensorTermNode) -> tf.Tensor:
        """Return a term of the loss that is a tensor with one number for each example."""
        value = self.values[node.value]
        shape = value.shape.as_list()[0 if node.value in self.model.of_weights else 1 :]
        if shape not in ([], [1]):
            raise SpecError([tensor_errors.several_losses(node.span, shape=shape)])
        with tf.name_scope("loss/"):
            mean = tf.reduce_mean(tf.cast(value, tf.float32))
            return mean * node.weight if node.weight != 1.0 else mean

    def _objective_loss(self, node: ObjectiveNode) -> MeasuredLoss:
        loss = make(node.call, "loss", base=self.tracer.base)
        target, prediction, *given = self._compared(node)
        with tf.name_scope("loss/"), refusal(node.label, [target, prediction, *given], node.span):
            weights = weights_of_examples(node.call.name, target, next(iter(given), None), node.class_weights)
            effects = len(self.graph.effects)
            found = measure(loss, target, prediction, self._examples(), weights)
            value = self._after_effects(found.value, effects)
            if loss.reduction == "sum":
                value = value * self._inverse_share()
            return evolve(found, value=value * node.weight if node.weight != 1.0 else value)

    def _of_examples(self, value: int) -> Any:
        """Return a tensor of the model; what is made of free weights alone, once for each example."""
        if value not in self.model.of_weights:
            return self.values[value]
        if value not in self.repeated:
            maker = next(call.layer for call in self.model.calls if value in call.values)
            with tf.name_scope(f"{self.model.layers[maker].keras_name}/"):
                self.repeated[value] = for_each_example(self.values[value], self._examples())
        return self.repeated[value]

    def _examples(self) -> int | tf.Tensor:
        if self.batch is not None:
            return self.batch
        return tf.shape(self.values[self.model.prediction_inputs[0].value])[0]

    def _inverse_share(self) -> tf.Tensor:
        """Return one over the tower's share in a mean, by which a loss that is a sum is multiplied.

        In evaluation the result is the sum over as many examples as a step of training has, whatever their
        batches.
        """
        if self.inverse_share is None:
            self.inverse_share = make_port(tf.float32, (), "inverse_share")
        if self.training:
            return self.inverse_share
        return self.inverse_share / tf.cast(self._examples(), tf.float32)

    def _metric(self, node: ObjectiveNode) -> tuple[Any, tuple[tf.Tensor, ...]]:
        """Return a metric, and what this tower's examples add to its state."""
        target, prediction, *given = map(in_float32, self._compared(node))
        with (
            tf.name_scope(f"metrics/{node.name}"),
            refusal(node.label, [target, prediction, *given], node.span),
        ):
            metric = metric_for(node.call, target, prediction, self.tracer.base)
            weights = weights_of_examples(node.call.name, target, next(iter(given), None), node.class_weights)
            weighing = {} if weights is None else {"sample_weight": weights}
            if node.call.name == "python" and self.batch is None:
                require_summable(metric, target, prediction, node)
            for each in metric.variables:
                if prod(each.shape) > MOST:
                    raise ValueError(f"its state would have the shape {list(each.shape)}")
            start = [tf.zeros(each.shape, each.dtype) for each in metric.variables]
            effects = len(self.graph.effects)
            found = metric.stateless_update_state(start, target, prediction, **weighing)
            found = self._after_effects(found, effects)
            return metric, tuple(tf.identity(each) for each in found)

    def _compared(self, node: ObjectiveNode) -> list[Any]:
        """Return the tensors of a loss or metric: target, prediction, and weights if there are any."""
        given = [] if node.example_weights is None else [node.example_weights]
        return [self._of_examples(each) for each in (node.target, node.prediction, *given)]

    def _differentiated(self, parts: Sequence[LossPart], scale: tf.Tensor) -> tuple[LossPart, ...]:
        """Return the parts of the loss with the gradients of each."""
        return tuple(
            evolve(part, gradients=self._gradients(part.value, scale, f"part_{number}" if number else ""))
            for number, part in enumerate(parts)
        )

    def _gradients(self, loss: tf.Tensor, scale: tf.Tensor, part: str) -> dict[str, Gradient]:
        with tf.name_scope("loss/"):
            loss = tf.multiply(loss, scale, name="scaled")
        names = [name for name in self.ports if self.tracer.weights[name].trainable]
        scope = f"gradients/{part}" if part else "gradients"
        # A weight that a layer gives another value, as `SpectralNormalization` does, is differentiated there,
        # as with Keras: an assignment has no gradient.
        given = {name: self.scope.get_current_value(self.variables[name]) for name in names}
        given = {name: value for name, value in given.items() if value is not self.ports[name]}
        ends = [*(self.ports[name] for name in names), *given.values()]
        found = tf.gradients(loss, ends, name=scope, stop_gradients=[*given.values()] or None)
        for name, each in zip(given, found[len(names) :], strict=True):
            before = found[names.index(name)]
            both = [tf.convert_to_tensor(one) for one in (before, each) if one is not None]
            found[names.index(name)] = tf.add_n(both) if both else None
        return {
            name: Gradient(getattr(each, "values", each), getattr(each, "indices", None))
            for name, each in zip(names, found, strict=False)
            if each is not None
        }


def _twin(value: Any) -> Any:
    """Return a placeholder like a tensor, with a mask if that has one."""
    twin, mask = tf.compat.v1.placeholder(value.dtype, value.shape), get_keras_mask(value)
    if mask is not None:
        set_keras_mask(twin, tf.compat.v1.placeholder(mask.dtype, mask.shape))
    return twin


def _class_of_user(layer: Any, variable: Any) -> str:
    """Return the class of the innermost layer with a variable; empty if it is not the user's."""
    owners = [part for part in flattened_layers(layer) if any(each is variable for each in part.variables)]
    own = type(owners[-1]) if owners else type(layer)
    if issubclass(own, _OF_KERAS):
        return ""
    return "" if own.__module__.startswith(("keras.", f"{__name__.partition('.')[0]}.")) else own.__name__


def _freeze(layer: Any) -> None:
    """Freeze a layer with the layers inside it, which some make only when they are built.

    It has been frozen before it was built. Keras does nothing if it is frozen again, so each part is frozen.
    """
    for part in flattened_layers(layer):
        part.trainable = False
    for variable in layer.variables:
        variable.trainable = False


def _sum(terms: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.add_n(terms, name="sum") if len(terms) > 1 else tf.identity(terms[0], name="sum")


@contextmanager
def _located(trace: _Trace, call: CallNode) -> Iterator[None]:
    step = trace.model.layers[call.layer].label
    values = [trace.values[each] for each in call.inputs]
    alone = [at for at, each in enumerate(call.inputs) if each in trace.model.without_examples]
    with refusal(step, values, call.span, alone):
        yield


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Let Keras draw the seeds of its initializers from `seed`, and restore Python's random generator."""
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)
