"""The values of parameters in each use of a `layer` block, and how many steps a model then has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import is_

from attrs import define, evolve, field

from dsl import ir
from dsl.diagnostics import SpecError
from dsl.errors import plan as errors
from dsl.errors import types
from dsl.values import CannotCalculateError, calculate

MOST_STEPS = 20_000
"""The most steps of a model: calls of layers, operations, and uses of `layer` blocks."""

DEEPEST = 50
"""The most `layer` blocks within each other."""


def require_bounded(spec: ir.Spec) -> None:
    """Raise SpecError for a model with too many steps, or `layer` blocks nested too deeply, to write out."""
    _Counting({block.name: block for block in spec.layers}).model(spec.model)


@define
class _Counting:
    """Counts the steps of a model. What a use of a block has depends on no more than its numbers."""

    blocks: Mapping[str, ir.LayerBlock]
    known: dict[tuple[object, ...], int] = field(factory=dict)
    depth: int = 0
    looked_at: int = 0  # each of these steps is in the model at least once

    def model(self, model: ir.Model) -> None:
        """Raise SpecError if a model has too many steps."""
        scope = _Scope(_shared(model.bindings))
        total = 0
        for part in _parts(model):
            total += self._count(part, scope)
            if total > MOST_STEPS:
                raise SpecError([errors.too_many_steps(part.span, total=total, most=MOST_STEPS)])

    def _count(self, part: object, scope: _Scope) -> int:  # noqa: PLR0911 one for each kind
        match part:
            case ir.Flow():
                return self._count(part.source, scope) + sum(self._step(each, scope) for each in part.steps)
            case ir.Group():
                return sum(self._count(each, scope) for each in part.items)
            case ir.Index():
                return 1 + self._count(part.tensor, scope)
            case ir.Operation():
                return 1 + self._count((*part.args, *part.kwargs.values()), scope)
            case ir.Weight():
                return 1
            case tuple():
                return sum(self._count(each, scope) for each in part)
        return 0

    def _step(self, step: ir.Step, scope: _Scope) -> int:
        self.looked_at += 1
        if self.looked_at > MOST_STEPS:
            raise SpecError([errors.too_many_steps(step.span, total=self.looked_at, most=MOST_STEPS)])
        if step.kind == "repeat":
            count = evaluate(step.count, scope.parameters)
            if not isinstance(count, int) or count <= 0 or step.inner is None:
                return 0
            return count * self._step(step.inner, scope)
        made = scope.shared.get(step.call.name, step) if step.kind == "shared" else step
        if made.kind == "block":
            return 1 + self._block(made.call, scope)
        return 1 + self._count(tuple(step.given.values()), scope)

    def _block(self, call: ir.Call, scope: _Scope) -> int:
        block = self.blocks[call.name]
        given = arguments(block, with_values(call, scope.parameters), {})
        key = (call.name, *(given[each.name] for each in block.parameters if each.type in {"int", "float"}))
        if key not in self.known:
            self.depth += 1
            if self.depth > DEEPEST:
                raise SpecError([errors.blocks_too_deep(call.span, deepest=DEEPEST)])
            inner = _Scope(_shared(block.bindings), given)
            values = tuple(each.value for each in block.bindings)
            self.known[key] = self._count((*values, block.output), inner)
            self.depth -= 1
        return self.known[key]


@define
class _Scope:
    """The shared layers and the parameters of a block."""

    shared: Mapping[str, ir.Step]
    parameters: Mapping[str, ir.Value] = field(factory=dict)


def _shared(bindings: tuple[ir.Binding, ...]) -> dict[str, ir.Step]:
    return {each.name: each.value.step for each in bindings if isinstance(each.value, ir.SharedLayer)}


def _parts(model: ir.Model) -> Iterator[ir.Node]:
    """Yield what has steps in a model."""
    yield from (each.value for each in model.bindings)
    for objective in (*(each.objective for each in model.loss), *(each.objective for each in model.metrics)):
        yield objective.target
        yield objective.prediction
        if objective.example_weights is not None:
            yield objective.example_weights
    yield from (each.tensor for each in model.tensor_terms)
    yield from model.returned


# --- the values of a `layer` block's parameters, in each use of the block ---------------------------------


def own_arguments(block: ir.LayerBlock, call: ir.Call) -> dict[str, ir.Value]:
    """Return the arguments of the use of a block that are not parameters of it."""
    parameters = {each.name for each in block.parameters}
    return {key: value for key, value in call.kwargs.items() if key not in parameters}


def arguments(block: ir.LayerBlock, call: ir.Call, outer: Mapping[str, ir.Value]) -> dict[str, ir.Value]:
    """Return the values of a block's parameters in one use of it."""
    values = {each.name: each.default for each in block.parameters if each.has_default}
    values |= {
        each.name: evaluate(value, outer) for each, value in zip(block.parameters, call.args, strict=False)
    }
    values |= {key: evaluate(value, outer) for key, value in call.kwargs.items() if key != "name"}
    return values


def with_values(call: ir.Call, parameters: Mapping[str, ir.Value]) -> ir.Call:
    """Return `call` with its parameters replaced by their values."""
    args = _evaluated(call.args, parameters)
    kwargs = {key: evaluate(value, parameters) for key, value in call.kwargs.items()}
    if args is call.args and all(kwargs[key] is value for key, value in call.kwargs.items()):
        return call
    return evolve(call, args=args, kwargs=kwargs)


def _evaluated(values: tuple[ir.Value, ...], parameters: Mapping[str, ir.Value]) -> tuple[ir.Value, ...]:
    found = tuple(evaluate(each, parameters) for each in values)
    return values if all(map(is_, found, values)) else found


def evaluate(value: ir.Value, parameters: Mapping[str, ir.Value]) -> ir.Value:
    """Return a value with parameters replaced and arithmetic done; raises SpecError if it has no result."""
    if isinstance(value, ir.Parameter):
        return parameters[value.name]
    if isinstance(value, ir.Arithmetic):
        left = evaluate(value.left, parameters)
        right = None if value.right is None else evaluate(value.right, parameters)
        return _calculated(value, left, right)
    if isinstance(value, tuple):
        return _evaluated(value, parameters)
    if isinstance(value, ir.Call):
        return with_values(value, parameters)
    return value


def _calculated(expression: ir.Arithmetic, left: ir.Value, right: ir.Value) -> int | float:
    """Return the value of an expression; raise SpecError if it has none, as a division by zero has."""
    try:
        given = ("*", -1, left) if right is None else (expression.operator, left, right)
        found = calculate(*given)
    except CannotCalculateError as reason:
        raise SpecError([types.no_result(expression.span, why=str(reason))]) from reason
    return _plain_number(found)


def _plain_number(value: object) -> int | float:
    """Return the result of arithmetic on layer parameters, which have no units."""
    if not isinstance(value, int | float):
        raise TypeError("arithmetic on layer parameters gave no plain number")
    return value
