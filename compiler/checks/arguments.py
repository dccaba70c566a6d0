"""Check arguments of layers that parameters of `layer` blocks decide, and those that must fit each other."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.model.elaborate import model_if_known
from compiler.topology import Topology
from dsl import ir
from dsl.diagnostics import Diagnostic
from dsl.errors import plan as errors
from dsl.schema import Function
from dsl.schema.functions import step_function
from dsl.schema.signatures import find, named_arguments
from grammar.lower.context import Context
from grammar.lower.fitting import ValuePlace, fitted
from grammar.reports import Reports

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
