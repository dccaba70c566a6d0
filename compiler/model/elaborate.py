"""From the IR of a model to a flat graph of layer calls.

`layer` blocks are expanded at each use, `repeat` is unrolled, shared layers are called several times, and
every layer gets a name that depends only on the spec.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import define, evolve, field

from compiler.model.graph import CallNode, InputNode, LayerNode, ModelGraph, ObjectiveNode
from dsl import ir
from dsl.diagnostics import SpecError
from dsl.errors.meaning import types
from dsl.values import CannotCalculateError, calculate, negate


def elaborate(spec: ir.Spec) -> ModelGraph:
    """Return the model of a spec as a flat graph of layer calls.

    Args:
        spec: A spec that has passed the checks of the language.

    Raises:
        SpecError: An expression of layer parameters has no value.
    """
    builder = _Builder({block.name: block for block in spec.layers})
    return builder.model(spec.model)


@define
class _Scope:
    """The meaning of names in one instance of a block: tensors, shared layers, and parameters."""

    prefix: str
    values: dict[str, int] = field(factory=dict)
    shared: dict[str, ir.Step] = field(factory=dict)
    shared_layers: dict[str, int] = field(factory=dict)
    parameters: Mapping[str, ir.Value] = field(factory=dict)


@define
class _Builder:
    blocks: Mapping[str, ir.LayerBlock]
    inputs: list[InputNode] = field(factory=list)
    layers: list[LayerNode] = field(factory=list)
    calls: list[CallNode] = field(factory=list)
    names: list[str] = field(factory=list)
    taken: set[str] = field(factory=set)

    def model(self, model: ir.Model) -> ModelGraph:
        scope = _Scope("")
        inputs = (each.name for each in model.bindings if isinstance(each.value, ir.Input))
        self.taken.update(inputs)  # in a Keras model, layers and inputs share their names
        self._bind_all(model.bindings, scope)
        losses = tuple(
            self._objective(snake_case(term.objective.call.name), term.objective, scope, term.weight)
            for term in model.loss
        )
        metrics = tuple(self._objective(each.name, each.objective, scope) for each in model.metrics)
        output = self._value(model.output, scope) if model.output is not None else losses[0].prediction
        return ModelGraph(
            name=model.name,
            inputs=tuple(self.inputs),
            layers=tuple(self.layers),
            calls=tuple(self.calls),
            losses=_distinct(losses),
            metrics=metrics,
            output=output,
            regularize=model.regularize,
            names=tuple(self.names),
        )

    def _objective(
        self, name: str, objective: ir.Objective, scope: _Scope, weight: float = 1.0
    ) -> ObjectiveNode:
        target = self._value(objective.target, scope)
        prediction = self._value(objective.prediction, scope)
        return ObjectiveNode(name, _plain(objective.call, {}), target, prediction, weight, objective.span)

    def _bind_all(self, bindings: tuple[ir.Binding, ...], scope: _Scope) -> None:
        for binding in bindings:
            value = binding.value
            if isinstance(value, ir.SharedLayer):
                scope.shared[binding.name] = value.step
            elif isinstance(value, ir.Input):
                if binding.name not in scope.values:  # a block's input is bound by its caller
                    scope.values[binding.name] = self._input(binding, value)
            else:
                scope.values[binding.name] = self._value(value, scope)

    def _input(self, binding: ir.Binding, value: ir.Input) -> int:
        number = self._new_value(binding.name)
        self.inputs.append(
            InputNode(binding.name, value.dtype or "float32", value.shape or (), number, binding.span)
        )
        return number

    def _new_value(self, name: str) -> int:
        self.names.append(name)
        return len(self.names) - 1

    def _value(self, expr: ir.Expr, scope: _Scope) -> int:
        if isinstance(expr, ir.Ref):
            return scope.values[expr.name]
        if isinstance(expr, ir.Flow):
            values = self._values(expr.source, scope)
            for step in expr.steps:
                values = (self._step(step, values, scope),)
            return values[0]
        raise TypeError("there is a list of tensors instead of one tensor")

    def _values(self, expr: ir.Expr, scope: _Scope) -> tuple[int, ...]:
        items = expr.items if isinstance(expr, ir.Group) else (expr,)
        return tuple(self._value(each, scope) for each in items)

    def _step(self, step: ir.Step, inputs: tuple[int, ...], scope: _Scope) -> int:
        if step.kind == "repeat":
            return self._repeat(step, inputs, scope)
        if step.kind == "block":
            return self._block(step, inputs, scope)
        layer = self._shared(step, scope) if step.kind == "shared" else self._layer(step, scope)
        value = self._new_value(self.layers[layer].path)
        self.calls.append(CallNode(layer, inputs, value, step.span))
        return value

    def _repeat(self, step: ir.Step, inputs: tuple[int, ...], scope: _Scope) -> int:
        count = _evaluate(step.count, scope.parameters)
        for _ in range(count if isinstance(count, int) and step.inner is not None else 0):
            assert step.inner is not None
            inputs = (self._step(step.inner, inputs, scope),)
        return inputs[0]

    def _shared(self, step: ir.Step, scope: _Scope) -> int:
        """Return the one layer of a `layer(...)` binding, which is made at its first use."""
        name = step.call.name
        if name not in scope.shared_layers:
            scope.shared_layers[name] = self._layer(scope.shared[name], scope, default_name=name)
        return scope.shared_layers[name]

    def _layer(self, step: ir.Step, scope: _Scope, default_name: str | None = None) -> int:
        call = _plain(step.call, scope.parameters)
        given = call.kwargs.get("name")
        short = given if isinstance(given, str) else default_name or snake_case(_maker(step.kind, call))
        kwargs = {key: value for key, value in call.kwargs.items() if key != "name"}
        kind = step.kind if step.kind in {"application", "python"} else "layer"
        self.layers.append(
            LayerNode(self._unique(scope.prefix + short), kind, evolve(call, kwargs=kwargs), step.span)
        )
        return len(self.layers) - 1

    def _unique(self, path: str) -> str:
        """Return `path`, with a number added if it is taken; `a/b` and `a_b` are the same name in Keras."""
        candidate, number = path, 0
        while candidate.replace("/", "_") in self.taken:
            number += 1
            candidate = f"{path}_{number}"
        self.taken.add(candidate.replace("/", "_"))
        return candidate

    def _block(self, step: ir.Step, inputs: tuple[int, ...], scope: _Scope) -> int:
        block = self.blocks[step.call.name]
        given = step.call.kwargs.get("name")
        prefix = self._unique(scope.prefix + (given if isinstance(given, str) else snake_case(block.name)))
        inner = _Scope(prefix + "/", parameters=_arguments(block, step.call, scope.parameters))
        tensors = [each.name for each in block.bindings if isinstance(each.value, ir.Input)]
        inner.values = dict(zip(tensors, inputs, strict=True))
        self._bind_all(block.bindings, inner)
        if block.output is not None:
            return self._value(block.output, inner)
        return inner.values[block.bindings[-1].name]


def _arguments(block: ir.LayerBlock, call: ir.Call, outer: Mapping[str, ir.Value]) -> dict[str, ir.Value]:
    """Return the values of a block's parameters in one use of it."""
    values = {each.name: each.default for each in block.parameters if each.has_default}
    values |= {
        each.name: _evaluate(value, outer) for each, value in zip(block.parameters, call.args, strict=False)
    }
    values |= {key: _evaluate(value, outer) for key, value in call.kwargs.items() if key != "name"}
    return values


def _plain(call: ir.Call, parameters: Mapping[str, ir.Value]) -> ir.Call:
    """Return `call` with its parameters replaced by their values."""
    return evolve(
        call,
        args=tuple(_evaluate(each, parameters) for each in call.args),
        kwargs={key: _evaluate(value, parameters) for key, value in call.kwargs.items()},
    )


def _evaluate(value: ir.Value, parameters: Mapping[str, ir.Value]) -> ir.Value:
    if isinstance(value, ir.Parameter):
        return parameters[value.name]
    if isinstance(value, ir.Arithmetic):
        left = _evaluate(value.left, parameters)
        right = None if value.right is None else _evaluate(value.right, parameters)
        return _calculated(value, left, right)
    if isinstance(value, tuple):
        return tuple(_evaluate(each, parameters) for each in value)
    if isinstance(value, ir.Call):
        return _plain(value, parameters)
    return value


def _calculated(expression: ir.Arithmetic, left: ir.Value, right: ir.Value) -> int | float:
    """Return the value of an expression; raise SpecError if it has none, as a division by zero has."""
    try:
        found = negate(left) if right is None else calculate(expression.operator, left, right)
    except CannotCalculateError as reason:
        raise SpecError([types.no_result(str(reason), expression.span)]) from reason
    return _plain_number(found)


def _plain_number(value: object) -> int | float:
    """Return the result of arithmetic on layer parameters, which have no units."""
    if not isinstance(value, int | float):
        raise TypeError("arithmetic on layer parameters gave no plain number")
    return value


def _maker(kind: str, call: ir.Call) -> str:
    """Return the name of the maker of a layer: a Keras class, an application, or a user's function."""
    path = str(call.args[0]) if kind == "python" else call.name
    return path.rpartition(":")[2].rpartition(".")[2]


def _distinct(losses: tuple[ObjectiveNode, ...]) -> tuple[ObjectiveNode, ...]:
    """Give losses of one class numbered names."""
    seen: dict[str, int] = {}
    named = []
    for loss in losses:
        count = seen[loss.name] = seen.get(loss.name, -1) + 1
        named.append(evolve(loss, name=f"{loss.name}_{count}") if count else loss)
    return tuple(named)


def snake_case(name: str) -> str:
    """Return a class name as Keras writes it for a layer: `MaxPooling2D` -> `max_pooling2d`."""
    spaced = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", name))
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", spaced).lower()
