"""Records of `model` and `layer` blocks."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import field, frozen

from dsl.ir.base import Block, Call, Node, Value
from dsl.source import Span


@frozen
class Input(Node):
    """`x = input(dtype, [shape])`. In a `layer` block both attributes are None.

    Attributes:
        dtype: The element type.
        shape: The shape without the batch axis.
    """

    dtype: str | None
    shape: tuple[int, ...] | None


@frozen
class Ref(Node):
    """A reference to a binding of the same block.

    Attributes:
        name: The name of the binding.
    """

    name: str


@frozen
class Group(Node):
    """`[a, b]`: several tensors that are given to one step.

    Attributes:
        items: The tensors, in order.
    """

    items: tuple[Expr, ...]


@frozen
class Step(Node):
    """One step `-> Name(...)` of a flow.

    Attributes:
        kind: What the name refers to. `layer`: a Keras layer class; `application`: a model of
            `keras.applications`; `block`: a
        `layer` block of the spec; `shared`: a `layer(...)` binding; `repeat`: `count` copies of `inner` in a
            row; `python`: an
        imported function that returns a layer.
        call: The call as written.
        count: The number of copies of `repeat`.
        inner: The step that `repeat` copies.
    """

    kind: Literal["layer", "application", "block", "shared", "repeat", "python"]
    call: Call
    count: Value = 1
    inner: Step | None = None


@frozen
class Flow(Node):
    """`source -> step -> step`.

    Attributes:
        source: The tensor or tensors that flow in.
        steps: The steps, in order.
    """

    source: Expr
    steps: tuple[Step, ...]


Expr: TypeAlias = "Ref | Group | Flow"


@frozen
class SharedLayer(Node):
    """`shared = layer(Dense(64))`: a layer that has the same weights wherever it is used.

    Attributes:
        step: The step that makes the layer.
    """

    step: Step


@frozen
class Binding(Node):
    """`name = value` in a `model` or `layer` block.

    Attributes:
        name: The name.
        value: The input, layer or tensor that it names.
        name_span: Where the name is written.
    """

    name: str
    value: Input | SharedLayer | Ref | Group | Flow
    name_span: Span | None = field(default=None, eq=False, repr=False, kw_only=True)


@frozen
class Objective(Node):
    """`[target, prediction] -> loss or metric`.

    Attributes:
        target: The target, which is the first argument of the Keras object.
        prediction: The prediction, which is the second argument.
        call: The call that makes the Keras loss or metric.
    """

    target: Expr
    prediction: Expr
    call: Call


@frozen
class LossTerm(Node):
    """One term of the loss.

    Attributes:
        objective: The Keras loss with its tensors.
        weight: The factor that the loss is multiplied by before the terms are added.
    """

    objective: Objective
    weight: float = 1.0


@frozen
class Metric(Node):
    """A Keras metric with a name.

    Attributes:
        name: The name in reports.
        objective: The Keras metric with its tensors.
    """

    name: str
    objective: Objective


@frozen
class Model(Block):
    """The `model` block: the computation of one clone.

    Attributes:
        name: The name of the model.
        bindings: The bindings, each after those that it needs.
        loss: The terms of the loss, which are added.
        regularize: The regularizer of all kernels, or None.
        metrics: The metrics.
        output: The tensor that evaluation and export return, or None for the prediction.
    """

    name: str
    bindings: tuple[Binding, ...] = ()
    loss: tuple[LossTerm, ...] = ()
    regularize: Call | None = None
    metrics: tuple[Metric, ...] = ()
    output: Expr | None = None


@frozen
class LayerParameter(Node):
    """A parameter of a `layer` block, written `filters = parameter(int)`.

    Attributes:
        name: The name.
        type: The name of its type.
        default: Its default, if `has_default`.
        has_default: Whether it has a default.
    """

    name: str
    type: str
    default: Value = None
    has_default: bool = False


@frozen
class LayerBlock(Block):
    """`layer "name" { ... }`: a reusable part of a model.

    Attributes:
        name: The name.
        parameters: The parameters, in order.
        bindings: The bindings, each after those that it needs.
        output: The tensor that the layer returns.
    """

    name: str
    parameters: tuple[LayerParameter, ...] = ()
    bindings: tuple[Binding, ...] = ()
    output: Expr | None = None
