"""From the IR of a model to a flat graph of layer calls.

`layer` blocks are expanded at each use, `repeat` is unrolled, shared layers are called several times, and
every layer gets a name that depends only on the spec.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal

from attrs import define, evolve, field

from compiler.figures import distinct
from compiler.model.expansion import arguments, evaluate, own_arguments, require_bounded, with_values
from compiler.model.free_axes import free_axes, padding_of, with_common_sizes
from compiler.model.graph import (
    Argument,
    CallNode,
    IndexSlice,
    InputNode,
    LayerNode,
    ModelGraph,
    ObjectiveNode,
    OutputNode,
    Start,
    TensorAt,
    TensorTermNode,
    kept_for_latest,
    label_of,
)
from dsl import ir
from dsl.diagnostics import SpecError
from dsl.errors import layers as tensor_errors
from dsl.errors.plan import expressions_too_deep
from dsl.source import Span


@kept_for_latest
def elaborate(spec: ir.Spec) -> ModelGraph:
    """Return the model of a spec as a flat graph of layer calls.

    The model of the last spec is kept, because several checks and then the plan ask for it.

    Raises:
        SpecError: An expression of layer parameters has no value, or the model is too large.
    """
    train = spec.data.train if spec.data is not None else None
    builder = _Builder({block.name: block for block in spec.layers}, train)
    try:
        require_bounded(spec)
        return builder.model(spec.model)
    except RecursionError:
        raise SpecError([expressions_too_deep(spec.model.span)]) from None


def model_if_known(spec: ir.Spec) -> ModelGraph | None:
    """Return the model of a spec; None if it cannot be written out, which the check of shapes reports."""
    try:
        return elaborate(spec)
    except SpecError:
        return None


@define
class _Scope:
    """The meaning of names in one instance of a block: tensors, shared layers, and parameters.

    `shared_layers` has the layers that each shared layer, or shared `layer` block, has made at its first use.
    `frozen` says that the whole instance has `trainable = false`, and `frozen_at` where that is written.
    """

    prefix: str
    values: dict[str, int] = field(factory=dict)
    shared: dict[str, ir.Step] = field(factory=dict)
    shared_layers: dict[str, tuple[int, ...]] = field(factory=dict)
    parameters: Mapping[str, ir.Value] = field(factory=dict)
    frozen: bool = False
    frozen_at: Span | None = None


@define
class _Builder:
    blocks: Mapping[str, ir.LayerBlock]
    train: ir.Split | None = None
    inputs: list[InputNode] = field(factory=list)
    layers: list[LayerNode] = field(factory=list)
    calls: list[CallNode] = field(factory=list)
    names: list[str] = field(factory=list)
    taken: set[str] = field(factory=set)
    numbers: dict[str, int] = field(factory=dict)  # for each name, the last number that was added to it
    constants: set[int] = field(factory=set)  # values that depend on no input and on no weight
    of_weights: set[int] = field(factory=set)  # values that depend on free weights, and on no input
    starts: list[Start] = field(factory=list)
    made_before: Iterator[int] | None = None  # the layers of a shared block, while it is used again

    def model(self, model: ir.Model) -> ModelGraph:
        scope = _Scope("")
        inputs = (each.name for each in model.bindings if isinstance(each.value, ir.Input))
        self.taken.update(inputs)  # in a Keras model, layers and inputs share their names
        self._bind_all(model.bindings, scope)
        losses = tuple(
            self._objective(snake_case(_maker(term.objective.call)), term.objective, scope, term.weight)
            for term in model.loss
        )
        metrics = tuple(self._objective(each.name, each.objective, scope) for each in model.metrics)
        terms = tuple(self._tensor_term(each, scope) for each in model.tensor_terms)
        if not model.returned and not losses and terms:
            raise SpecError([tensor_errors.no_prediction(terms[0].span)])
        outputs = self._outputs(model, losses, scope)
        graph = ModelGraph(
            name=model.name,
            inputs=tuple(with_common_sizes(self.inputs, self.train)),
            layers=tuple(self.layers),
            calls=tuple(self.calls),
            losses=_distinct(losses),
            metrics=metrics,
            outputs=outputs,
            names_outputs=bool(model.outputs) or len(outputs) > 1,
            regularize=model.regularize,
            names=tuple(self.names),
            constants=frozenset(self.constants),
            of_weights=frozenset(self.of_weights),
            starts=tuple(self.starts),
            tensor_terms=terms,
        )
        return _with_sized_weights(graph)

    def _outputs(
        self, model: ir.Model, losses: tuple[ObjectiveNode, ...], scope: _Scope
    ) -> tuple[OutputNode, ...]:
        """Return what the spec names as outputs, else the different predictions of the losses."""
        written = model.returned or tuple(each.objective.prediction for each in model.loss)
        values = [self._value(each, scope) for each in model.returned] or [each.prediction for each in losses]
        for value, expr in zip(values, written, strict=True):
            if value in self.constants:
                raise SpecError([tensor_errors.constant_output(expr.span)])
        if model.outputs:
            names = [each.name for each in model.outputs]
            return tuple(OutputNode(name, value) for name, value in zip(names, values, strict=True))
        heads: dict[int, ir.Expr] = {}
        for value, expr in zip(values, written, strict=True):
            heads.setdefault(value, expr)
        several = len(heads) > 1
        own = {value: expr.name for value, expr in heads.items() if several and isinstance(expr, ir.Ref)}
        for value in heads:
            if value not in own:
                own[value] = distinct(self.names[value].replace("/", "_"), own.values())
        return tuple(OutputNode(own[value], value) for value in heads)

    def _objective(
        self, name: str, objective: ir.Objective, scope: _Scope, weight: float = 1.0
    ) -> ObjectiveNode:
        target = self._value(objective.target, scope)
        prediction = self._value(objective.prediction, scope)
        written, weights = objective.example_weights, None
        if written is not None:
            weights = self._value(written, scope)
            if weights in self.constants:
                raise SpecError([tensor_errors.constant_weights(written.span)])
        call, by_class = with_values(objective.call, {}), objective.class_weights
        return ObjectiveNode(name, call, target, prediction, weight, weights, by_class, objective.span)

    def _tensor_term(self, term: ir.TensorTerm, scope: _Scope) -> TensorTermNode:
        value = self._value(term.tensor, scope)
        if value in self.constants:
            raise SpecError([tensor_errors.constant_loss(term.span)])
        return TensorTermNode(value, term.weight, term.span)

    def _bind_all(self, bindings: tuple[ir.Binding, ...], scope: _Scope) -> None:
        for binding in bindings:
            value = binding.value
            if isinstance(value, ir.SharedLayer):
                scope.shared[binding.name] = value.step
            elif isinstance(value, ir.Input):
                if binding.name not in scope.values:  # a block's input is bound by its caller
                    scope.values[binding.name] = self._input(binding, value)
            elif isinstance(value, ir.Weight):
                scope.values[binding.name] = self._weight(binding.name, value, scope)
            else:
                made = self._values_of(value, scope, len(binding.names))
                scope.values.update(zip(binding.names, made, strict=True))

    def _input(self, binding: ir.Binding, value: ir.Input) -> int:
        number = self._new_value(binding.name)
        padding = padding_of(binding.name, self.train)
        shape, dtype = value.shape or (), value.dtype or "float32"
        free = free_axes(shape, value.assume, padding)
        self.inputs.append(InputNode(binding.name, dtype, shape, number, binding.span, free, padding.value))
        return number

    def _weight(self, name: str, weight: ir.Weight, scope: _Scope) -> int:
        """Return the value of a free weight, which is the weight itself, without a batch axis.

        `_with_sized_weights` gives it an input, because Keras calls no layer without one.
        """
        layer = self._layer(ir.Step("layer", weight.call, span=weight.span), scope, name, kind="weight")
        (value,) = self._called(CallNode(layer, (), (), 0, span=weight.span), 1)
        self.of_weights.add(value)
        return value

    def _new_value(self, name: str) -> int:
        self.names.append(name)
        return len(self.names) - 1

    def _called(self, call: CallNode, count: int) -> tuple[int, ...]:
        """Add a call that makes `count` values, and return these."""
        path = self.layers[call.layer].path
        values = tuple(self._new_value(path) for _ in range(count))
        self.calls.append(evolve(call, values=values))
        return values

    def _value(self, expr: ir.Expr, scope: _Scope) -> int:
        (value,) = self._values_of(expr, scope, 1)
        return value

    def _values_of(self, expr: ir.Expr, scope: _Scope, count: int) -> tuple[int, ...]:
        """Return the `count` values of an expression. Raises SpecError if it has another number of them."""
        match expr:
            case ir.Ref():
                found: tuple[int, ...] = (scope.values[expr.name],)
            case ir.Flow():
                found = tuple(self._value(each, scope) for each in _items(expr.source))
                for step in expr.steps[:-1]:
                    found = self._step(step, found, scope, 1)
                return self._step(expr.steps[-1], found, scope, count)
            case ir.Index():
                found = self._index(expr, scope, count)
            case ir.Operation():
                found = self._operation(expr.function, expr.args, expr.kwargs, expr.span, scope, count)
            case ir.Group():
                found = tuple(self._value(each, scope) for each in expr.items)
        if len(found) != count:
            raise SpecError([tensor_errors.several_outputs("this", len(found), expr.span, count)])
        return found

    def _index(self, index: ir.Index, scope: _Scope, count: int) -> tuple[int, ...]:
        """Return a part of a tensor. Raises SpecError if the index mixes examples or has no meaning."""
        found = self._operation("getitem", (index.tensor, index.parts), {}, index.span, scope, count)
        call = self.calls[-1]
        tensor, *choosing = call.inputs
        alone = self.constants | self.of_weights
        if tensor not in alone and not index.keeps_first:
            name = index.tensor.name if isinstance(index.tensor, ir.Ref) else None
            raise SpecError([tensor_errors.batch_indexed(index.span, name=name)])
        parts: Any = call.args[1]
        reason = None
        if tensor not in alone and not alone.issuperset(choosing):
            reason = "each example would choose from all examples"
        elif len(choosing) > 1:
            reason = "two tensors choose along its axes"
        elif choosing and any(isinstance(each, int) for each in parts):
            reason = "a number and a tensor choose along its axes"
        if reason is not None:
            raise SpecError([tensor_errors.unusable_index(index.span, reason=reason)])
        return found

    def _operation(
        self,
        function: str,
        args: tuple[object, ...],
        kwargs: Mapping[str, ir.Operand],
        span: Span | None,
        scope: _Scope,
        count: int,
    ) -> tuple[int, ...]:
        inputs: list[int] = []
        given = tuple(self._argument(each, scope, inputs) for each in args)
        named = {key: self._argument(each, scope, inputs) for key, each in kwargs.items()}
        layer = self._add_layer(
            LayerNode(
                scope.prefix + function.rpartition(".")[2], "operation", ir.Call(function, span=span), span
            )
        )
        values = self._called(CallNode(layer, tuple(inputs), (), 0, given, named, span), count)
        if self.constants.issuperset(inputs):
            self.constants.update(values)
        elif inputs and (self.constants | self.of_weights).issuperset(inputs):
            self.of_weights.update(values)
        return values

    def _argument(self, given: object, scope: _Scope, inputs: list[int]) -> Argument:
        """Return an argument of a call, and add the tensors in it to `inputs`."""
        if isinstance(given, ir.Ref | ir.Flow | ir.Index | ir.Operation):
            inputs.append(self._value(given, scope))
            return TensorAt(len(inputs) - 1)
        items = given.items if isinstance(given, ir.Group) else given
        if isinstance(items, tuple):
            return tuple(self._argument(each, scope, inputs) for each in items)
        if isinstance(given, ir.Rest):
            return ...
        if isinstance(given, ir.Slice):
            ends = (evaluate(each, scope.parameters) for each in (given.first, given.last, given.step))
            return IndexSlice(*(each if isinstance(each, int) else None for each in ends))
        return evaluate(given, scope.parameters)  # type: ignore[arg-type] # all else is a plain value

    def _step(self, step: ir.Step, sources: tuple[int, ...], scope: _Scope, count: int) -> tuple[int, ...]:
        """Apply a step to tensors, and return the `count` values that it makes."""
        if step.kind == "repeat":
            return self._repeat(step, sources, scope)
        if step.kind == "block":
            return self._block(step, sources, scope, count)
        if step.kind == "shared" and scope.shared[step.call.name].kind == "block":
            return self._shared_block(step, sources, scope, count)
        if not self.constants.isdisjoint(sources):
            raise SpecError([tensor_errors.constant_into_layer(step.span, step=step.call.name)])
        layer = self._shared(step, scope) if step.kind == "shared" else self._layer(step, scope)
        inputs = [*sources]
        given = {key: self._argument(each, scope, inputs) for key, each in step.given.items()}
        call = CallNode(layer, tuple(inputs), (), len(sources), kwargs=given, span=step.span)
        return self._called(call, count)

    def _repeat(self, step: ir.Step, inputs: tuple[int, ...], scope: _Scope) -> tuple[int, ...]:
        count = evaluate(step.count, scope.parameters)
        for _ in range(count if isinstance(count, int) and step.inner is not None else 0):
            assert step.inner is not None
            inputs = self._step(step.inner, inputs, scope, 1)
        return inputs[:1]

    def _shared(self, step: ir.Step, scope: _Scope) -> int:
        """Return the one layer of a `layer(...)` binding, which is made at its first use."""
        name = step.call.name
        if name not in scope.shared_layers:
            scope.shared_layers[name] = (self._layer(scope.shared[name], scope, name),)
        return scope.shared_layers[name][0]

    def _shared_block(
        self, step: ir.Step, sources: tuple[int, ...], scope: _Scope, count: int
    ) -> tuple[int, ...]:
        """Expand a `layer` block whose uses share the layers that its first use makes."""
        name = step.call.name
        block = evolve(scope.shared[name], span=step.span)
        if name not in scope.shared_layers:
            before = len(self.layers)
            found = self._block(block, sources, scope, count, name)
            scope.shared_layers[name] = tuple(range(before, len(self.layers)))
            return found
        outside, self.made_before = self.made_before, iter(scope.shared_layers[name])
        found = self._block(block, sources, scope, count, name)
        self.made_before = outside
        return found

    def _layer(
        self,
        step: ir.Step,
        scope: _Scope,
        default_name: str | None = None,
        kind: Literal["weight"] | None = None,
    ) -> int:
        call = with_values(step.call, scope.parameters)
        given = call.kwargs.get("name")
        short = given if isinstance(given, str) else default_name or snake_case(_maker(call))
        found: Any = kind or (step.kind if step.kind in {"application", "python"} else "layer")
        frozen = scope.frozen or call.kwargs.get("trainable") is False
        kwargs = {key: value for key, value in call.kwargs.items() if key not in {"name", "trainable"}}
        file = kwargs.get("weights")
        if found == "application" and is_read_here(file):
            kwargs["weights"] = None
        elif found == "application":
            file = None  # Keras reads it
        elif file is None or isinstance(file, str):
            kwargs.pop("weights", None)
        at = scope.frozen_at if scope.frozen else call.kwarg_spans.get("trainable")
        own = call if kwargs == call.kwargs else evolve(call, kwargs=kwargs)
        node = LayerNode(scope.prefix + short, found, own, step.span, frozen, at if frozen else None)
        again = self.made_before is not None
        layer = self._add_layer(node)
        if not again:
            self._start(self.layers[layer].path, call, file)
        return layer

    def _start(self, path: str, call: ir.Call, file: object) -> None:
        """Note that the weights below `path` start from a file, if the call names one."""
        if isinstance(file, str):
            self.starts.append(Start(f"{path}/*", file, call.kwarg_spans.get("weights", call.span)))

    def _add_layer(self, node: LayerNode) -> int:
        """Add a layer, or find the one that the same step of a shared block has made before."""
        if self.made_before is not None:
            return next(self.made_before)
        path = self._unique(node.path)
        self.layers.append(node if path == node.path else evolve(node, path=path))
        return len(self.layers) - 1

    def _unique(self, path: str) -> str:
        """Return `path`, with a number added if it is taken; `a/b` and `a_b` are the same name in Keras."""
        number = self.numbers.get(path, 0)  # smaller ones are taken, for names are never given back
        candidate = f"{path}_{number}" if number else path
        while candidate.replace("/", "_") in self.taken:
            number += 1
            candidate = f"{path}_{number}"
        self.numbers[path] = number
        self.taken.add(candidate.replace("/", "_"))
        return candidate

    def _block(
        self,
        step: ir.Step,
        sources: tuple[int, ...],
        scope: _Scope,
        count: int,
        default_name: str | None = None,
    ) -> tuple[int, ...]:
        block = self.blocks[step.call.name]
        given = step.call.kwargs.get("name")
        short = given if isinstance(given, str) else default_name or snake_case(block.name)
        prefix = self._unique(scope.prefix + short) if self.made_before is None else ""
        own = own_arguments(block, with_values(step.call, scope.parameters))
        inner = _Scope(
            prefix + "/",
            parameters=arguments(block, step.call, scope.parameters),
            frozen=scope.frozen or own.get("trainable") is False,
            frozen_at=scope.frozen_at if scope.frozen else step.call.kwarg_spans.get("trainable"),
        )
        if self.made_before is None:
            self._start(prefix, step.call, own.get("weights"))
        tensors = [each.name for each in block.bindings if isinstance(each.value, ir.Input)]
        inner.values = dict(zip(tensors, sources, strict=True))
        self._bind_all(block.bindings, inner)
        if block.output is None:
            found: tuple[int, ...] = (inner.values[block.bindings[-1].name],)
        else:
            found = tuple(self._value(each, inner) for each in _items(block.output))
        if len(found) != count:
            raise SpecError([tensor_errors.several_outputs(step.call.name, len(found), step.span, count)])
        return found


def is_read_here(weights: object) -> bool:
    """Whether the `weights` of a model of `keras.applications` are a file that is read as for other steps.

    Keras itself reads files in the format of its older releases, and those that it downloads.
    """
    return isinstance(weights, str) and weights.endswith((".keras", ".weights.h5"))


def _items(expr: ir.Expr) -> tuple[ir.Expr, ...]:
    return expr.items if isinstance(expr, ir.Group) else (expr,)


def _with_sized_weights(graph: ModelGraph) -> ModelGraph:
    """Let each free weight be called on an input that the output needs."""
    needed = graph.prediction_inputs or graph.inputs
    calls = (
        evolve(each, inputs=(needed[0].value,), sources=1)
        if graph.layers[each.layer].kind == "weight"
        else each
        for each in graph.calls
    )
    return evolve(graph, calls=tuple(calls))


def _maker(call: ir.Call) -> str:
    """Return the name of the maker of an object: a Keras class, an application, or a user's function."""
    return label_of(call).rpartition(":")[2].rpartition(".")[2]


def _distinct(losses: tuple[ObjectiveNode, ...]) -> tuple[ObjectiveNode, ...]:
    """Give losses of one class numbered names."""
    seen: dict[str, int] = {}
    named = []
    for loss in losses:
        count = seen[loss.name] = seen.get(loss.name, -1) + 1
        named.append(evolve(loss, name=f"{loss.name}_{count}") if count else loss)
    return tuple(named)


@cache
def snake_case(name: str) -> str:
    """Return a class name as Keras writes it for a layer: `MaxPooling2D` -> `max_pooling2d`."""
    spaced = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", name))
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", spaced).lower()
