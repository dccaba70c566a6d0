"""The model of a spec as a flat graph of layer calls: blocks expanded, repeats unrolled, names given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from types import EllipsisType
from typing import Any, Literal, TypeAlias, TypeVar

from attrs import evolve, field, frozen

from compiler.figures import reached
from dsl import ir
from dsl.source import Span


def label_of(call: ir.Call) -> str:
    """Return how messages name what a call makes: `module:function` if it is `python(...)`."""
    return str(call.args[0]) if call.name == "python" and call.args else call.name


@frozen
class FreeAxis:
    """An axis of an input without a fixed size: each batch has its own."""

    axis: int  # its number in the shape without the batch axis, from 0
    assumed: int
    source: str  # what gives this size, in words of the spec


@frozen
class InputNode:
    """An input of the model."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]  # its shape without the batch axis; None for an axis without a fixed size
    value: int  # its number among the values of the graph
    span: Span | None = field(default=None, eq=False, repr=False)
    free: tuple[FreeAxis, ...] = ()  # its axes without a fixed size
    padding: float = 0  # what batches of the training data are filled with along these axes

    @property
    def assumed_shape(self) -> tuple[int, ...]:
        """The shape with the sizes that forecasts assume."""
        sizes = {each.axis: each.assumed for each in self.free}
        return tuple(sizes[at] if size is None else size for at, size in enumerate(self.shape))


@frozen
class LayerNode:
    """One layer with weights of its own, a free weight, or an operation, which has no weights."""

    path: str  # its name inside a tower, after those of the blocks around it (`encoder/attention/query`)
    # Whether it is a layer of Keras, a model of `keras.applications`, made by a user's function, a free
    # weight, or an operation.
    kind: Literal["layer", "application", "python", "weight", "operation"]
    # The call that makes it, with parameters of blocks replaced by their values. For an operation, its name
    # is that of a function of `keras.ops`, or `getitem` for an index.
    call: ir.Call
    span: Span | None = field(default=None, eq=False, repr=False)
    # Whether `trainable = false` holds for it, by itself or because a block around it has it.
    frozen: bool = False
    # The place of that argument: of the outermost block that has it, or the layer's own.
    frozen_at: Span | None = field(default=None, eq=False, repr=False)

    @property
    def label(self) -> str:
        """The name in messages: that of the maker, or the function of `python(...)`."""
        return label_of(self.call)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """The shape of a free weight."""
        shape: Any = self.call.args[0] if self.call.args else self.call.kwargs["shape"]
        return tuple(shape)

    @property
    def keras_name(self) -> str:
        """The name given to Keras, which allows no `/`."""
        return self.path.replace("/", "_")


@frozen
class TensorAt:
    """Stands for a tensor among the arguments of a call."""

    number: int  # the number of the tensor among the `inputs` of the CallNode


@frozen
class IndexSlice:
    """`first:last:step` of an index, as in Python."""

    first: int | None
    last: int | None
    step: int | None


Argument: TypeAlias = "TensorAt | IndexSlice | ir.Value | tuple[Argument, ...] | EllipsisType"


@frozen
class CallNode:
    """A layer called on values, which makes new values."""

    layer: int
    # The values that it is called on. The first `sources` of them reach it through the arrow of a flow, and
    # Keras's signature decides how they are passed; the others are named by `args` and `kwargs`.
    inputs: tuple[int, ...]
    # What it makes: one value, or several for a layer or an operation with several outputs.
    values: tuple[int, ...]
    sources: int  # how many of `inputs` come through the arrow
    args: tuple[Argument, ...] = ()  # the positional arguments of an operation
    # The arguments by name, of an operation or in the second brackets of a layer.
    kwargs: Mapping[str, Argument] = field(factory=dict)
    span: Span | None = field(default=None, eq=False, repr=False)


@frozen
class ObjectiveNode:
    """A Keras loss or metric that compares two values."""

    name: str
    call: ir.Call
    target: int  # the number of the value that is to be predicted
    prediction: int
    weight: float = 1.0  # the factor of a loss in the sum of all losses
    # The number of the value that says how much each example counts, or None.
    example_weights: int | None = None
    # How much the examples of each class count, by the number of the class; or empty.
    class_weights: tuple[float, ...] = ()
    span: Span | None = field(default=None, eq=False, repr=False)

    @property
    def label(self) -> str:
        """The name of the loss or metric in messages: that of its class, or the function of `python(...)`."""
        return label_of(self.call)


@frozen
class Start:
    """A file of weights from which a part of the model starts."""

    pattern: str  # a glob of the names of the weights of the part
    file: str
    span: Span | None = field(default=None, eq=False, repr=False)


@frozen
class OutputNode:
    """What a trained model returns, or a part of it."""

    name: str
    value: int  # the number of the value


@frozen
class TensorTermNode:
    """A value with one number for each example, whose mean over the whole batch is added to the loss."""

    value: int
    weight: float = 1.0  # the factor of the mean in the sum of all losses
    span: Span | None = field(default=None, eq=False, repr=False)


@frozen
class ModelGraph:
    """A model: its inputs, its layers, and the calls in an order in which they can be computed."""

    name: str
    inputs: tuple[InputNode, ...]
    layers: tuple[LayerNode, ...]  # its layers, each of which may be called several times
    calls: tuple[CallNode, ...]
    # The Keras losses. Their weighted sum with `tensor_terms` is the loss of the model.
    losses: tuple[ObjectiveNode, ...]
    metrics: tuple[ObjectiveNode, ...]
    # What the model predicts. Values are numbered from 0.
    outputs: tuple[OutputNode, ...]
    # Whether the spec names the outputs. The trained model then returns a dict of tensors, and else one
    # tensor.
    names_outputs: bool = False
    regularize: ir.Call | None = None  # the regularizer of all weights whose layer has none of its own
    names: tuple[str, ...] = ()  # for each value, the binding that holds it, or else the path of its layer
    # The values that depend on no input of the model and on no free weight.
    constants: frozenset[int] = frozenset()
    # The values that depend on free weights, and on no input of the model. Like constants, they have no batch
    # axis; a layer, a loss, a metric and an output get them once for each example.
    of_weights: frozenset[int] = frozenset()
    starts: tuple[Start, ...] = ()  # the files of weights that steps name, in the order of the steps
    tensor_terms: tuple[TensorTermNode, ...] = ()  # the terms of the loss that are values of the graph
    draws: bool = True  # whether its layers drop numbers and add noise in training, as they are declared

    @property
    def without_examples(self) -> frozenset[int]:
        """The values that have no batch axis."""
        return self.constants | self.of_weights

    @property
    def is_free(self) -> bool:
        """Whether inputs have axes without fixed sizes."""
        return any(each.free for each in self.inputs)

    @property
    def assumed(self) -> ModelGraph:
        """The model with the sizes that forecasts assume in place of those that are free."""
        inputs = (evolve(each, shape=each.assumed_shape, free=()) for each in self.inputs)
        return evolve(self, inputs=tuple(inputs))

    @property
    def prediction_inputs(self) -> tuple[InputNode, ...]:
        """The inputs that the outputs depend on."""
        needed = self.values_of_outputs
        return tuple(each for each in self.inputs if each.value in needed)

    @property
    def values_of_outputs(self) -> set[int]:
        """The values that the outputs depend on, the outputs among them."""
        return self.needed_for([each.value for each in self.outputs])

    @property
    def values_in_use(self) -> set[int]:
        """The values that an output, a loss or a metric depends on."""
        compared = [
            each
            for node in (*self.losses, *self.metrics)
            for each in (node.target, node.prediction, node.example_weights)
            if each is not None
        ]
        terms = [each.value for each in self.tensor_terms]
        return self.needed_for([*compared, *terms, *(each.value for each in self.outputs)])

    def needed_for(self, values: Iterable[int]) -> set[int]:
        """Return the values that some values depend on, these among them."""
        made_by = {value: call for call in self.calls for value in call.values}
        return {*reached(values, lambda value: made_by[value].inputs if value in made_by else ())}

    def returned(self, tensors: Sequence[Any]) -> Any:
        """Return the tensors of `outputs` as the trained model does: one tensor, or a dict of them."""
        if not self.names_outputs:
            return tensors[0]
        return {each.name: tensor for each, tensor in zip(self.outputs, tensors, strict=True)}


# --- functions of which several callers, one after the other, want the result for the same argument -------


Asked = TypeVar("Asked")
Result = TypeVar("Result")


def kept_for_latest(function: Callable[[Asked], Result]) -> Callable[[Asked], Result]:
    """Make a function keep its last result, and return it again for the same object."""
    latest: tuple[Asked, Result] | None = None

    @wraps(function)
    def keeping(argument: Asked) -> Result:
        nonlocal latest
        kept = latest
        if kept is None or kept[0] is not argument:
            kept = latest = (argument, function(argument))
        return kept[1]

    return keeping
