"""Checks of a model: layers and losses can be called on what reaches them, and TensorFlow can hold it."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from compiler.model.elaborate import elaborate, model_if_known
from compiler.model.graph import ModelGraph
from compiler.model.shapes import Misfit, Shape, known_shapes, weights_fit
from compiler.topology import Topology
from compiler.towers import batches, clone_count
from dsl import ir
from dsl.diagnostics import Diagnostic, SpecError
from dsl.errors import layers as tensor_errors
from dsl.errors import names
from dsl.errors import plan as errors
from dsl.schema import Function
from dsl.schema.functions import step_function
from dsl.schema.signatures import find, named_arguments
from dsl.source import Span
from grammar.lower.context import Context
from grammar.lower.evaluate import ValuePlace, fitted
from grammar.reports import Reports

ENTROPIES = {"CategoricalCrossentropy", "CategoricalFocalCrossentropy"}
ELEMENTWISE = ENTROPIES | {
    "BinaryCrossentropy",
    "BinaryFocalCrossentropy",
    "Huber",
    "KLDivergence",
    "LogCosh",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "Poisson",
}
"""Losses that compare a prediction with a target of its own shape."""


def shapes_fit(spec: ir.Spec) -> Iterator[Diagnostic]:
    """Report each step, and each loss, that cannot be called on what reaches it, once for each place."""
    if not spec.model.returned and not spec.model.has_loss:
        return
    try:
        graph = elaborate(spec)
    except SpecError as fault:
        yield from fault.diagnostics
        return
    seen: set[Span | None] = set()
    for found in _faults(graph):
        if found.span not in seen:  # a block that is used twice is wrong in one place
            seen.add(found.span)
            yield found


def _faults(graph: ModelGraph) -> Iterator[Diagnostic]:
    known = known_shapes(graph)
    for call in graph.calls:
        misfit = known.misfits.get(call.values[0])
        if misfit is not None:
            words = [_words(each) for each in misfit.shapes]
            step = graph.layers[call.layer].call.name
            yield (
                errors.free_axis(step, words, misfit.reason, _free(misfit), call.span)
                if misfit.free
                else errors.shape_mismatch(call.span, step=step, shapes=words, reason=misfit.reason)
            )
    for loss in graph.losses:
        target, prediction = known.values[loss.target], known.values[loss.prediction]
        if target is None or prediction is None:
            continue
        reason = _loss_fault(loss.call.name, target, prediction)
        words = [_words(target), _words(prediction)]
        weights = None if loss.example_weights is None else known.values[loss.example_weights]
        if reason is None and weights is not None:
            reason = _weights_fault(loss.call.name, prediction, weights)
            words.append(_words(weights))
        if reason is not None:
            yield errors.shape_mismatch(loss.span, step=loss.call.name, shapes=words, reason=reason)
    for term in graph.tensor_terms:
        shape = known.values[term.value]
        if shape is not None and shape not in ((), (1,)):
            yield tensor_errors.several_losses(term.span, shape=shape)


def _loss_fault(name: str, target: Shape, prediction: Shape) -> str | None:
    """Return why a loss cannot compare a target with a prediction; None if it can, or if this is not certain.

    Keras itself drops or adds an axis of one at the end.
    """
    signature = find("loss", name)
    name = signature.name if signature is not None else name
    if target[-1:] == (1,) or prediction[-1:] == (1,):
        return None
    same = "target and prediction are to have the same shape"
    if name == "SparseCategoricalCrossentropy" and prediction and not _agree(target, prediction[:-1]):
        vectors = "; `CategoricalCrossentropy` takes vectors" if target == prediction else ""
        return (
            f"its target is the number of a class, `{_words(prediction[:-1])}` for this prediction{vectors}"
        )
    if name in ENTROPIES and len(target) != len(prediction):
        numbers = "; `SparseCategoricalCrossentropy` takes the number of a class"
        return same + (numbers if _agree(target, prediction[:-1]) else "")
    pairs = [each for each in zip(target, prediction, strict=False) if 1 not in each]
    equal = all(one == other for one, other in pairs if None not in (one, other))
    return same if name in ELEMENTWISE and len(target) == len(prediction) and not equal else None


def _agree(one: Shape, other: Shape) -> bool:
    """Whether two shapes can be equal; a size that is not fixed can be any."""
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(a == b or None in (a, b) for a, b in pairs)


def _free(misfit: Misfit) -> list[tuple[str, Span | None]]:
    """Return the axes without a fixed size that cause a misfit, in words, and where each is written."""
    return [(f"axis {axis.axis} of `{each.name}`", each.span) for each in misfit.free for axis in each.free]


def _weights_fault(name: str, prediction: Shape, weights: Shape) -> str | None:
    """Return why weights do not fit the values of a loss; None if they do, or if this is not certain."""
    signature = find("loss", name)
    known = signature is not None and signature.name in {*ELEMENTWISE, "SparseCategoricalCrossentropy"}
    values = prediction[:-1]
    if not known or not prediction or weights_fit(values, weights):
        return None
    return f"weights of the shape `{_words(weights)}` cannot weigh values of the shape `{_words(values)}`"


def _words(shape: Shape) -> str:
    """Return a shape as the language writes it, without the batch."""
    return f"[{', '.join('none' if each is None else str(each) for each in shape)}]"


# --- sizes of tensors -------------------------------------------------------------------------------------


MOST = 2**31 - 1
"""The most numbers of one tensor: many of TensorFlow's kernels count in 32 bits."""


def tensors_can_be_held(spec: ir.Spec, topology: Topology) -> Iterator[Diagnostic]:
    """Report the first tensor of a clone's batch that is too large, if its shape is known without Keras.

    The batches have been checked before, so that each clone has a whole number of examples.
    """
    clones = spec.clones
    largest = max(batches(clones, clone_count(spec, topology), spec.update.accumulate), default=1)
    for name, shape, span in _tensors(spec):
        size = prod(shape)
        if size > MOST:
            yield errors.tensor_too_large(span, name=name, shape=shape, most=MOST)
            return
        if max(size, 1) * largest > MOST:
            given = clones.span_of("batch" if clones.batch is not None else "global_batch")
            yield errors.batch_too_large(
                given or clones.span, batch=largest, name=name, most=MOST, whole=(largest, *shape)
            )
            return


def _tensors(spec: ir.Spec) -> Iterator[tuple[str, tuple[int, ...], Span | None]]:
    """Yield the name, the shape without the batch and the place of each tensor whose shape is known."""
    graph = model_if_known(spec)
    if graph is None:
        return
    known = known_shapes(graph)
    for each in graph.inputs:
        yield each.name, each.assumed_shape, each.span
    for call in graph.calls:
        if call.values[0] in known.misfits:
            return  # the check of shapes reports it
        shape = known.values[call.values[0]]
        sizes = tuple(each for each in shape or () if each is not None)
        if shape is not None and len(sizes) == len(shape) and call.values[0] not in graph.of_weights:
            yield graph.layers[call.layer].call.name, sizes, call.span


# --- the loss ---------------------------------------------------------------------------------------------


def model_has_a_loss(spec: ir.Spec, _topology: Topology) -> Iterator[Diagnostic]:
    """Report a model without a loss, because towers have a forward and a backward pass."""
    if not spec.model.has_loss and spec.model.span is not None:
        doc = (
            "a loss compares a target with a prediction: `loss = [target, prediction] -> MeanSquaredError()`"
        )
        yield names.missing_attribute(spec.model.span, name="loss", place="`model`", doc=doc)


# --- arguments of layers ----------------------------------------------------------------------------------


_PLAIN = frozenset({"int", "float", "bool", "shape", "list"})


def arguments_can_be_taken(spec: ir.Spec, _topology: Topology) -> Iterator[Diagnostic]:
    """Report what Keras does not take, once for each place in the text of the spec."""
    model = model_if_known(spec)
    decided = any(block.parameters for block in spec.layers)
    context = Context(Reports())
    told = set()
    for layer in model.layers if model is not None else ():
        signature = find("layer", layer.call.name) if layer.kind == "layer" else None
        if signature is None:
            continue
        function = step_function(signature)
        if decided and "/" in layer.path:
            _fit(layer.call, function, context)
        reason = _misfit(signature.name, named_arguments(layer.call))
        if reason is not None and layer.call.span not in told:
            told.add(layer.call.span)
            yield errors.layer_cannot_be_made(layer.call.span, step=layer.call.name, reason=reason)
    yield from context.reports.found


def _fit(call: ir.Call, function: Function, context: Context) -> None:
    """Report the arguments of a layer that are out of the range of their places."""
    positional = zip(function.positional, call.args, call.arg_spans, strict=False)
    named = ((function.argument(key), value, call.kwarg_spans[key]) for key, value in call.kwargs.items())
    for argument, value, span in (*positional, *named):
        if argument is not None and argument.type.kind in _PLAIN:
            what = f"`{argument.name}` of `{call.name}`"
            fitted(value, ValuePlace(argument.type, what, span, (), context))


def _misfit(name: str, given: dict[str, ir.Value]) -> str | None:
    """Return why the arguments of a layer do not fit each other, or None."""
    filters, groups = given.get("filters"), given.get("groups", 1)
    if isinstance(filters, int) and isinstance(groups, int) and groups > 0 and filters % groups:
        return f"`filters` must be a multiple of `groups`, and {filters} is none of {groups}"
    both = not name.startswith(("Depthwise", "Separable"))  # of these, TensorFlow refuses some
    if both and _size(given.get("strides")) > 1 and _size(given.get("dilation_rate")) > 1:
        return "`strides` and `dilation_rate` cannot both be more than 1"
    heads, shared = given.get("num_query_heads"), given.get("num_key_value_heads")
    if name == "GroupQueryAttention" and isinstance(heads, int) and isinstance(shared, int) and shared > 0:
        return f"{heads} query heads cannot share {shared} heads evenly" if heads % shared else None
    return None


def _size(value: ir.Value) -> int:
    """Return the largest number of a shape; 1 if it is not given."""
    if isinstance(value, tuple):
        return max((each for each in value if isinstance(each, int)), default=1)
    return value if isinstance(value, int) else 1
