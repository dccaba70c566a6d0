"""Records of `model` and `layer` blocks."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import field, frozen

from dsl.ir.base import Block, Call, Node, Value
from dsl.source import Span


@frozen
class Input(Node):
    """`x = input(dtype, [shape])`; `shape` is without the batch axis, both None in a `layer` block."""

    dtype: str | None
    shape: tuple[int, ...] | None


@frozen
class Ref(Node):
    """A binding of the same block, by name."""

    name: str


@frozen
class Group(Node):
    """`[a, b]`: several tensors given to one step."""

    items: tuple[Expr, ...]


@frozen
class Step(Node):
    """One `-> Name(...)` of a flow. `kind` says what the name was found to be.

    `layer` a Keras layer class, `application` a model of `keras.applications`, `block` a `layer` block of
    the spec, `shared` a `layer(...)` binding, `repeat` a chain of `count` copies of its `inner`
    step, `python` an imported function that makes a layer.
    """

    kind: Literal["layer", "application", "block", "shared", "repeat", "python"]
    call: Call
    count: Value = 1
    inner: Step | None = None


@frozen
class Flow(Node):
    """`source -> step -> step`."""

    source: Expr
    steps: tuple[Step, ...]


Expr: TypeAlias = "Ref | Group | Flow"


@frozen
class SharedLayer(Node):
    """`shared = layer(Dense(64))`: one layer whose uses share its weights."""

    step: Step


@frozen
class Binding(Node):
    """`name = value` in a model or a `layer` block."""

    name: str
    value: Input | SharedLayer | Ref | Group | Flow
    name_span: Span | None = field(default=None, eq=False, repr=False, kw_only=True)


@frozen
class Objective(Node):
    """`[target, prediction] -> Keras loss or metric`, in that order of arguments."""

    target: Expr
    prediction: Expr
    call: Call


@frozen
class LossTerm(Node):
    """A loss and the factor with which it is added to the others."""

    objective: Objective
    weight: float = 1.0


@frozen
class Metric(Node):
    """A named Keras metric."""

    name: str
    objective: Objective


@frozen
class Model(Block):
    """What one clone computes."""

    name: str
    bindings: tuple[Binding, ...] = ()
    loss: tuple[LossTerm, ...] = ()
    regularize: Call | None = None
    metrics: tuple[Metric, ...] = ()
    output: Expr | None = None


@frozen
class LayerParameter(Node):
    """`filters = parameter(int)` of a `layer` block; `default` counts where `has_default`."""

    name: str
    type: str
    default: Value = None
    has_default: bool = False


@frozen
class LayerBlock(Block):
    """`layer "name" { ... }`: a reusable piece of a model."""

    name: str
    parameters: tuple[LayerParameter, ...] = ()
    bindings: tuple[Binding, ...] = ()
    output: Expr | None = None
