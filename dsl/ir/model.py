"""Records of `model` and `layer` blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from attrs import field, frozen

from dsl.ir.base import Block, Call, Node, Value
from dsl.source import Span


@frozen
class Input(Node):
    """`x = input(dtype, [shape], assume = sizes)`. In a `layer` block both attributes are None."""

    dtype: str | None
    # The shape without the batch axis; None for an axis whose size each batch has for itself.
    shape: tuple[int | None, ...] | None
    # For each axis without a size, the size that forecasts assume; empty if the spec gives none.
    assume: tuple[int, ...] = ()


@frozen
class Ref(Node):
    """A reference to a binding of the same block."""

    name: str


@frozen
class Group(Node):
    """`[a, b]`: several tensors that are given to one step."""

    items: tuple[Expr, ...]


@frozen
class Step(Node):
    """One step `-> Name(...)` of a flow."""

    # What the name refers to. `layer`: a Keras layer class; `application`: a model of `keras.applications`;
    # `block`: a `layer` block of the spec; `shared`: a `layer(...)` binding; `repeat`: `count` copies of
    # `inner` in a row; `python`: an imported function that returns a layer.
    kind: Literal["layer", "application", "block", "shared", "repeat", "python"]
    call: Call
    count: Value = 1
    inner: Step | None = None
    # The arguments of the layer's own call, in second brackets: `-> LSTM(8)(mask = m)`.
    given: Mapping[str, Operand] = field(factory=dict)


@frozen
class Flow(Node):
    """`source -> step -> step`."""

    source: Expr
    steps: tuple[Step, ...]


@frozen
class Slice(Node):
    """`first:last:step` of an index, as in Python."""

    first: Value = None
    last: Value = None
    step: Value = None


@frozen
class Rest(Node):
    """`...` of an index: all axes that the other parts of the index do not mention."""


@frozen
class Index(Node):
    """`x[:, 0]`: a part of a tensor, by NumPy's rules."""

    tensor: Expr
    # A number, a slice, `...` or a tensor of whole numbers for each axis, in the order of axes. The first
    # axis of a tensor of examples is that of the batch.
    parts: tuple[Operand | Slice | Rest, ...]

    @property
    def keeps_first(self) -> bool:
        """Whether the first axis stays as it is."""
        return isinstance(self.parts[0], Rest) or self.parts[0] == Slice()


@frozen
class Operation(Node):
    """`a + b` or `ops.softmax(x, axis = -1)`: a call of a function of `keras.ops`."""

    function: str  # the name of the function in `keras.ops`; that of `a + b` is `add`
    args: tuple[Operand, ...] = ()
    kwargs: Mapping[str, Operand] = field(factory=dict)


Expr: TypeAlias = "Ref | Group | Flow | Index | Operation"
Operand: TypeAlias = "Expr | Value"
"""An argument of an operation or of a layer's call: a tensor, a list of tensors, or a plain value."""


@frozen
class Weight(Node):
    """`token = weight([1, 64], initializer = zeros)`: a trainable tensor that no layer owns."""

    # The arguments. The weight has the shape among them, without a batch axis.
    call: Call


@frozen
class SharedLayer(Node):
    """`shared = layer(Dense(64))`: a layer that has the same weights wherever it is used."""

    step: Step


@frozen
class Binding(Node):
    """`name = value`, or `name, other = value` for several outputs, in a `model` or `layer` block."""

    name: str
    value: Input | SharedLayer | Weight | Expr
    others: tuple[str, ...] = ()
    name_span: Span | None = field(default=None, eq=False, repr=False, kw_only=True)
    other_spans: tuple[Span, ...] = field(default=(), eq=False, repr=False, kw_only=True)

    @property
    def names(self) -> tuple[str, ...]:
        """All names that are bound, in order; `_` binds nothing."""
        return (self.name, *self.others)


@frozen
class Objective(Node):
    """`[target, prediction] -> loss or metric`, or the same with weights of the examples as a third tensor.

    Attributes:
        call: The call that makes the Keras loss or metric, without `class_weight`.
        example_weights: How much each example, or each position of it, counts; None if all count the same.
        class_weights: `class_weight`: how much the examples of each class count, by the number of the class.
            Empty if all classes count the same.
    """

    target: Expr
    prediction: Expr
    call: Call
    example_weights: Expr | None = None
    class_weights: tuple[float, ...] = ()


@frozen
class LossTerm(Node):
    """One term of the loss."""

    objective: Objective
    weight: float = 1.0  # the factor that the loss is multiplied by before the terms are added


@frozen
class TensorTerm(Node):
    """A term of the loss that is a tensor with one number for each example, such as `0.5 * kl`.

    The term is the mean of these numbers over the whole batch.
    """

    tensor: Expr
    weight: float = 1.0  # the factor of the term, which is -1 if the term is subtracted


@frozen
class Metric(Node):
    """A Keras metric with a name."""

    name: str
    objective: Objective


@frozen
class NamedOutput(Node):
    """One item of `output = { name = tensor }`."""

    name: str
    value: Expr


@frozen
class Model(Block):
    """The `model` block: the computation of one clone."""

    name: str
    bindings: tuple[Binding, ...] = ()  # the bindings, each after those that it needs
    # The terms of the loss that are Keras losses. All terms are added.
    loss: tuple[LossTerm, ...] = ()
    regularize: Call | None = None  # the regularizer of all kernels, or None
    metrics: tuple[Metric, ...] = ()
    # The tensor that the trained model returns. If it is None, and `outputs` is empty, that is the prediction
    # of the loss, or the predictions of all losses by their names.
    output: Expr | None = None
    outputs: tuple[NamedOutput, ...] = ()
    tensor_terms: tuple[TensorTerm, ...] = ()

    @property
    def returned(self) -> tuple[Expr, ...]:
        """The tensors that the spec gives as what the trained model returns."""
        return (() if self.output is None else (self.output,)) + tuple(each.value for each in self.outputs)

    @property
    def has_loss(self) -> bool:
        """Whether the model can be trained."""
        return bool(self.loss or self.tensor_terms)


@frozen
class LayerParameter(Node):
    """A parameter of a `layer` block, written `filters = parameter(int)`."""

    name: str
    type: str
    default: Value = None
    has_default: bool = False


@frozen
class LayerBlock(Block):
    """`layer "name" { ... }`: a reusable part of a model."""

    name: str
    parameters: tuple[LayerParameter, ...] = ()
    bindings: tuple[Binding, ...] = ()  # the bindings, each after those that it needs
    output: Expr | None = None


# --- what stands in an expression -------------------------------------------------------------------------


def parts_of(value: object) -> Iterator[object]:
    """Yield the value of a binding, or an expression, and all that stands in it, outermost first."""
    yield value
    inner: tuple[object, ...] = ()
    match value:
        case Group():
            inner = value.items
        case Flow():
            inner = (value.source, *value.steps)
        case Step():
            inner = tuple(value.given.values())
        case Index():
            inner = (value.tensor, *value.parts)
        case Operation():
            inner = (*value.args, *value.kwargs.values())
        case SharedLayer():
            inner = (value.step,)
        case tuple():
            inner = value
    for each in inner:
        yield from parts_of(each)


def names_in(value: object) -> Iterator[str]:
    """Yield the names of the tensors and shared layers that an expression uses."""
    for part in parts_of(value):
        if isinstance(part, Ref):
            yield part.name
        elif isinstance(part, Step) and part.kind == "shared":
            yield part.call.name


def steps_in(value: object) -> Iterator[Step]:
    """Yield the steps in the value of a binding, but not those that `repeat` copies."""
    for part in parts_of(value):
        if isinstance(part, Step):
            yield part


def calls_in(value: object) -> Iterator[Call]:
    """Yield the calls among the arguments of a call, at any depth."""
    parts = (*value.args, *value.kwargs.values()) if isinstance(value, Call) else value
    for each in parts if isinstance(parts, tuple) else ():
        if isinstance(each, Call):
            yield each
        yield from calls_in(each)
