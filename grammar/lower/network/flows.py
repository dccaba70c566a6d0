"""Flows of tensors, in models and in `layer` blocks."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from dsl import ir, schema, syntax
from dsl.errors import layers as tensor_errors
from dsl.errors import names, references, types
from dsl.instead import random_function
from dsl.schema import Function, signatures, vocabulary
from dsl.schema import types as kinds
from dsl.schema.functions import PARAMETER_TYPES, step_function
from dsl.suggest import nearest
from grammar.lower import values
from grammar.lower.context import BAD, Context
from grammar.lower.evaluate import misplaced_value, misused_name
from grammar.lower.network.operations import Operations, Tensors, is_operation
from grammar.lower.values import typed

APPLICATIONS = "applications."
SPECIAL = (*vocabulary.MAKERS, "python")


def expression(written: syntax.Expr, tensors: Tensors, *, what: str = "this place") -> Any:  # noqa: PLR0911 one for each kind
    """Lower an expression that gives a tensor or several; return BAD if it has an error."""
    if is_operation(written, tensors):
        return operations(tensors).read(written)
    match written:
        case syntax.Path():
            return _reference(written, tensors)
        case syntax.List():
            items = [tensor(item, tensors, what="an item of a list") for item in written.items]
            if not items:
                return misplaced_value(written, what, "tensors", tensors.context, found="an empty list")
            return BAD if any(item is BAD for item in items) else ir.Group(tuple(items), span=written.span)
        case syntax.Flow():
            return flow(written, tensors)
        case syntax.Call():
            return _lonely_call(written, tensors, what)
    return misplaced_value(written, what, "a tensor", tensors.context)


def operations(tensors: Tensors) -> Operations:
    """Return what reads arithmetic, indices and functions of the tensors of a block."""
    return Operations(tensors, lambda part: tensor(part, tensors, what="an operation"))


def tensor(written: syntax.Expr, tensors: Tensors, *, what: str = "this place") -> Any:
    """Lower an expression that must be a single tensor to a Ref or a Flow; return BAD if it has an error."""
    found = expression(written, tensors, what=what)
    if isinstance(found, ir.Group):
        return tensors.context.refuse(types.several_tensors(written.span, what=what))
    return found


def flow(written: syntax.Flow, tensors: Tensors) -> Any:
    """Lower a flow: its source and its steps."""
    source = expression(written.source, tensors, what="the start of a flow")
    steps = [step(each, tensors) for each in written.steps]
    if source is BAD or any(each is BAD for each in steps):
        return BAD
    return ir.Flow(source, tuple(steps), span=written.span)


MAKERS = tuple(each for each in vocabulary.MAKERS if each != "repeat")


def _lonely_call(written: syntax.Call, tensors: Tensors, what: str) -> Any:
    """Report a call in place of a tensor: a layer without its source, or a misspelt function."""
    name, near, advice = written.callee.name, None, None
    if name in tensors.context.layers or signatures.find("layer", name) is not None:
        advice = f"give it something to work on: `x -> {name}(...)`"
    else:
        near, random = nearest(name, MAKERS), random_function(name)
        if near is None and random is None and "." in name:
            last = name.rpartition(".")[2]
            near = f"ops.{last}" if signatures.find("operation", last) is not None else None
        if near is not None or random is not None:
            advice = None if near else random
            report = references.unknown_function(
                "function", name, written.callee.span, near=near, advice=advice
            )
            return tensors.context.refuse(report)
    return misplaced_value(written, what, "a tensor", tensors.context, advice=advice)


def _reference(path: syntax.Path, tensors: Tensors) -> Any:
    name = path.bare
    context = tensors.context
    if name is None:
        return misplaced_value(path, "a flow", "a tensor", context, found=f"`{path.span.text}`")
    kind = tensors.kinds.get(name)
    if kind in {"input", "tensor"}:
        return ir.Ref(name, span=path.span)
    if kind == "shared":
        advice = f"use it as a step: `x -> {name}`"
        misused_name(path, "a layer", "a tensor", tensors.spans[name], context, advice)
    elif name in context.constants:
        context.notes.constants.add(name)
        misused_name(path, "a constant", "a tensor", context.constants[name].value.span, context)
    elif name in context.parameters:
        misused_name(path, "a parameter", "a tensor", context.parameters[name].span, context)
    elif kind is None and not context.is_silent(name):
        known = [each for each, of in tensors.kinds.items() if of != "shared"]
        context.reports.add(references.unknown_name(path.span, name=name, kind="tensor", known=known))
    return BAD


# --- steps ------------------------------------------------------------------------------------------------


def step(written: syntax.Expr, tensors: Tensors) -> Any:
    """Lower one step of a flow."""
    match written:
        case syntax.Call():
            return _call(written, tensors)
        case syntax.Path():
            return _named(written, tensors)
    advice = None
    if isinstance(written, syntax.Chain):
        advice = "put each flow in round brackets: `(a -> F()) + (b -> G())`"
    elif isinstance(written, syntax.Indexed):
        advice = "put the flow in round brackets: `(a -> F())[:, 0]`"
    return misplaced_value(written, "a step", "a layer", tensors.context, advice=advice)


def _named(path: syntax.Path, tensors: Tensors) -> Any:
    """Lower `-> shared`, a step that names a `layer(...)` binding."""
    name = path.name
    context = tensors.context
    if tensors.kinds.get(name) == "shared" and path.bare is not None:
        call = ir.Call(name, span=path.span, name_span=path.span)
        return ir.Step("shared", call, span=path.span)
    if name in tensors.kinds:
        if tensors.kinds[name] != "bad" and not context.is_silent(name):
            misused_name(path, "a tensor", "a layer", tensors.spans[name], context)
    elif (
        name in context.layers or signatures.find("layer", name) is not None or _application(name) is not None
    ):
        context.notes.layers.add(name)
        context.reports.add(references.not_called(path.span, kind="layer", name=name))
    elif name in context.constants:
        misused_name(path, "a constant", "a layer", context.constants[name].value.span, context)
    elif not context.may_exist(name):
        shared = [each for each, kind in tensors.kinds.items() if kind == "shared"]
        known = (*shared, *_layer_names(context))
        context.reports.add(references.unknown_function("layer", name, path.span, known))
    return BAD


def _application(name: str) -> Function | None:
    return (
        signatures.find("application", name.removeprefix(APPLICATIONS))
        if name.startswith(APPLICATIONS)
        else None
    )


def _layer_names(context: Context) -> tuple[str, ...]:
    applications = tuple(APPLICATIONS + name for name in signatures.names("application"))
    return (*context.layers, *signatures.names("layer"), *applications, "repeat", "python")


def _call(call: syntax.Call, tensors: Tensors) -> Any:
    made = _made(call, tensors)
    if not call.given or made is BAD:
        return made
    if made.kind in {"block", "repeat"}:
        return tensors.context.refuse(
            tensor_errors.no_call_arguments(call.given[0].span, name=made.call.name)
        )
    given = operations(tensors).given(call)
    return BAD if given is BAD else evolve(made, given={**made.given, **given})


def _made(call: syntax.Call, tensors: Tensors) -> Any:  # noqa: PLR0911 one for each kind of step
    context = tensors.context
    name = call.callee.name
    if any(segment.index is not None for segment in call.callee.segments):
        return misplaced_value(call.callee, "a step", "a layer", context, found="a name with an index")
    if name in context.layers:
        return _block(call, tensors)
    if name == "repeat":
        return _repeat(call, tensors)
    if name == "python":
        return _python(call, context)
    if tensors.kinds.get(name) == "shared":
        return _shared_called(call, tensors)
    application = _application(name)
    found = application or signatures.find("layer", name)
    if found is None:
        return _unknown(call, tensors)
    bound = values.bound(call, step_function(found), context)
    if bound is BAD:
        return BAD
    if application is None:
        return ir.Step("layer", bound, span=call.span)
    return ir.Step("application", _with_named_weights(bound, application), span=call.span)


def _with_named_weights(call: ir.Call, application: Function) -> ir.Call:
    """Return the call of an application whose `weights`, if they are given by position, are named instead."""
    names_ = [each.name for each in application.positional]
    if names_[len(call.args) - 1 : len(call.args)] != ["weights"]:
        return call
    return evolve(
        call,
        args=call.args[:-1],
        arg_spans=call.arg_spans[:-1],
        kwargs={"weights": call.args[-1], **call.kwargs},
        kwarg_spans={"weights": call.arg_spans[-1], **call.kwarg_spans},
    )


def _unknown(call: syntax.Call, tensors: Tensors) -> Any:
    name = call.callee.name
    context = tensors.context
    if context.may_exist(name) or context.may_exist("layer"):
        return BAD
    if signatures.find("application", name) is not None:
        advice = f"write `{APPLICATIONS}{name}(...)`"
        return context.refuse(references.unknown_function("layer", name, call.callee.span, advice=advice))
    if name in tensors.kinds:
        return misused_name(call.callee, "a tensor", "a layer", tensors.spans[name], context)
    shared = tuple(each for each, kind in tensors.kinds.items() if kind == "shared")
    return values.unknown("layer", call, (*shared, *_layer_names(context)), context)


def _shared_called(call: syntax.Call, tensors: Tensors) -> Any:
    """Read `-> shared(mask = m)`: the arguments are those of the layer's call, for it is made already."""
    name = call.callee.name
    positional = next((each for each in call.arguments if each.name is None), None)
    if positional is not None:
        at = tensors.spans[name]
        advice = f"write `-> {name}`: its arguments were given where it was made"
        return tensors.context.refuse(
            references.wrong_reference(
                call.span,
                name=name,
                found="a layer already made",
                wanted="a layer to be made",
                defined=at,
                advice=advice,
            )
        )
    again = syntax.Call(call.callee, (), call.arguments, span=call.span)
    given = operations(tensors).given(again)
    if given is BAD:
        return BAD
    made = ir.Call(name, span=call.span, name_span=call.callee.span)
    return ir.Step("shared", made, given=given, span=call.span)


def _block(call: syntax.Call, tensors: Tensors) -> Any:
    context = tensors.context
    block = context.layers[call.callee.name]
    context.notes.layers.add(block.name)
    if block.name in context.notes.incomplete:
        return BAD
    arguments = tuple(
        schema.Argument(
            each.name, PARAMETER_TYPES[each.type], default=each.default, required=not each.has_default
        )
        for each in block.parameters
    )
    if all(each.name != "name" for each in arguments):
        arguments += (schema.Argument("name", kinds.string(), required=False),)
    bound = values.bound(call, step_function(schema.Function(block.name, arguments)), context)
    return BAD if bound is BAD else ir.Step("block", bound, span=call.span)


def _repeat(call: syntax.Call, tensors: Tensors) -> Any:
    context = tensors.context
    arguments = list(call.arguments)
    if [each.name for each in arguments] != [None, None]:
        if not any(isinstance(each.value, syntax.Broken) for each in arguments):
            context.reports.add(references.repeat_arguments(call.callee.span))
        return BAD
    count = typed(arguments[0].value, kinds.integer(1, 10_000), "the first argument of `repeat`", context)
    inner = step(arguments[1].value, tensors)
    if isinstance(inner, ir.Step) and inner.kind == "shared":
        return context.refuse(references.repeat_shared(arguments[1].span))
    if count is BAD or inner is BAD:
        return BAD
    made = ir.Call(
        "repeat",
        (count, inner.call),
        span=call.span,
        name_span=call.callee.span,
        arg_spans=(arguments[0].span, arguments[1].span),
    )
    return ir.Step("repeat", made, count, inner, span=call.span)


def _python(call: syntax.Call, context: Context) -> Any:
    if not context.allow_python:
        context.reports.add(names.python_not_allowed(call.callee.span))
    function = schema.function("layer", "python")
    bound: Any = BAD if function is None else values.bound(call, step_function(function), context)
    return BAD if bound is BAD else ir.Step("python", bound, span=call.span)


def layer_made(call: syntax.Call, tensors: Tensors) -> Any:
    """Lower `layer(Dense(64))`, a layer that has the same weights wherever it is used."""
    context = tensors.context
    if len(call.arguments) != 1 or call.arguments[0].name is not None:
        return context.refuse(references.layer_arguments(call.callee.span))
    inner = step(call.arguments[0].value, tensors)
    if inner is BAD:
        return BAD
    if inner.kind in {"repeat", "shared"} or inner.given:
        return context.refuse(references.shared_block(call.arguments[0].value.span, name=inner.call.name))
    return ir.SharedLayer(inner, span=call.span)
