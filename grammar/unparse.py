"""Writes the IR as text: a spec with includes, constants, overrides and defaults filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf, nextafter
from typing import Any

from attrs import evolve

from dsl import ir, schema
from dsl.ir import Spec
from dsl.schema import Function, Type
from dsl.schema import types as kinds
from dsl.schema.functions import function_at, step_function, weight_function
from dsl.schema.placement import target_of
from dsl.source import Source
from dsl.values import UNITS, Dimension, units_of
from grammar.format import WIDTH, format_text
from grammar.lower.network.model import CLASS_WEIGHT
from grammar.lower.network.operations import PREFIX


def unparse(spec: Spec) -> str:
    """Return a spec as text in the uniform style. Reading the text gives an equal IR."""
    return format_text(Source(spec.path or "<spec>", "\n\n".join(_blocks(spec)) + "\n"))


# --- the text of all blocks, defaults included ------------------------------------------------------------


def _blocks(spec: ir.Spec) -> Iterator[str]:
    """Yield the text of each block, before it is formatted."""
    yield f"tfdeploy = {spec.version}"
    for each in spec.layers:
        yield layer(each)
    yield model(spec.model)
    if spec.data is not None:
        yield block("data", [*splits(spec.data), f"per_clone = {spec.data.per_clone}"])
    yield _attributes("devices", spec.devices, [_job(job) for job in spec.devices.jobs])
    clones = _attributes("clones", spec.clones)
    if clones:
        yield clones
    if spec.place.rules:
        yield block(
            "place", [f"{_selector(each.selector)} -> {_target(each.target)}" for each in spec.place.rules]
        )
    groups = [
        f"{quoted(each.pattern)} -> {value(each.optimizer, kinds.keras('optimizer'))}"
        for each in spec.update.groups
    ]
    yield _attributes("update", spec.update, [block("optimizer", groups)] if groups else [])
    yield _attributes("train", spec.train, _part_weights(spec.train))
    if spec.expect.conditions:
        yield block("expect", [_condition(each) for each in spec.expect.conditions])


def _attributes(name: str, of: ir.Block, more: Sequence[str] = ()) -> str:
    """Return the text of a block whose attributes are fields of its record, without empty ones."""
    lines = []
    for row in schema.BLOCKS[name].attributes:
        given = getattr(of, row.name)
        if isinstance(given, ir.Every):
            lines.append(f"{row.name} = {_period(given)}")
        elif given is not None or row.type.optional:
            lines.append(f"{row.name} = {value(given, row.type)}")
    lines += more
    return block(name, lines) if lines else ""


def _period(given: ir.Every) -> str:
    return plain(given.steps) if given.seconds is None else quantity(given.seconds, "seconds")


def splits(given: ir.Data) -> Iterator[str]:
    """Yield the text of each split of the data."""
    for split in (given.train, given.validation, given.test):
        if split is not None:
            source = value(split.source, kinds.call("source"))
            steps = (f"\n-> {value(each, kinds.call('transform'))}" for each in split.transforms)
            yield f"{split.name} = {source}{''.join(steps)}"


def _part_weights(given: ir.Train) -> list[str]:
    rules = [f"{quoted(each.pattern)} -> {quoted(each.file)}" for each in given.part_weights]
    return [block("weights", rules)] if rules else []


def _job(given: ir.Job) -> str:
    tasks = f"hosts = {value(given.hosts)}" if given.hosts else f"tasks = {given.span_of_tasks}"
    return block(f"job {quoted(given.name)}", [tasks, f"gpu = {given.gpu}", f"cpu = {given.cpu}"])


# --- place ------------------------------------------------------------------------------------------------


def _selector(given: ir.Selector) -> str:
    return given.role if given.pattern is None else f"{given.role}({quoted(given.pattern)})"


def _target(given: ir.Target) -> str:
    match given:
        case ir.DeviceSet():
            return _devices(given)
        case ir.GroupMember():
            return f"group[{given.index}]"
        case ir.Replicated():
            return "replicated"
        case ir.OverClones():
            return "sharded(clones)"
    target = target_of(given)
    assert target is not None
    named = (f", {each.name} = {value(getattr(given, each.name), each.type)}" for each in target.arguments)
    return f"{target.name}({_devices(given.devices)}{''.join(named)})"


def _devices(given: ir.DeviceSet) -> str:
    """Return the text of a set of devices, as a list if it has several patterns."""
    patterns = [_pattern(each) for each in given.patterns]
    return patterns[0] if len(patterns) == 1 else f"[{', '.join(patterns)}]"


def _pattern(given: ir.DevicePattern) -> str:
    device = f"{given.kind}[{_indices(given.indices)}]"
    return device if given.job is None else f"{given.job}[{_indices(given.tasks)}].{device}"


def _indices(given: tuple[int, ...] | None) -> str:
    if given is None:
        return "*"
    return str(given[0]) if len(given) == 1 else f"{given[0]}..{given[-1]}"


# --- expect -----------------------------------------------------------------------------------------------


def _condition(given: ir.Condition) -> str:
    measure = schema.measure(given.function)
    kinds_ = () if measure is None else measure.arguments
    arguments = []
    for argument, kind in zip(given.arguments, kinds_, strict=True):
        if isinstance(argument, ir.DeviceSet):
            arguments.append(_devices(argument))
        else:
            arguments.append(quoted(argument) if kind == "glob" else argument)
    dimension = None if measure is None else measure.dimension
    figure = plain(given.value) if dimension is None else quantity(given.value, dimension)
    brackets = f"({', '.join(arguments)})" if arguments else ""
    return f"{given.function}{brackets} {given.operator} {figure}"


# --- the text of values, and of models and layers ---------------------------------------------------------


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}
_STRENGTH = {"+": 1, "-": 1, "*": 2, "/": 2, "negate": 3}
_BARE = ("aggregation", "clip")
_ULPS = 8


def quoted(text: str) -> str:
    """Return a text as a string of the language."""
    return '"' + "".join(_ESCAPES.get(character, character) for character in text) + '"'


def value(given: Any, type: Type | None = None) -> str:  # noqa: A002 the schema's word for it
    """Return a value as it is written in a place with this type."""
    if isinstance(given, ir.Call):
        return call(given, type)
    if isinstance(given, (ir.Parameter, ir.Arithmetic)):
        return _arithmetic(given)
    if isinstance(given, tuple):
        item = _item(type)
        return f"[{', '.join(value(each, item) for each in given)}]"
    if isinstance(given, str):
        return given if _is_word(given, type) else quoted(given)
    if type is not None and type.kind == "quantity" and type.dimension is not None and given is not None:
        return quantity(given, type.dimension)
    return plain(given)


def plain(given: float | None) -> str:
    """Return a number, `true`, `false` or `none`."""
    return str(given).lower() if given is None or isinstance(given, bool) else repr(given)


def quantity(amount: float, dimension: Dimension) -> str:
    """Return an amount in the largest unit in which it is an integer."""
    if dimension == "fraction":
        return f"{_percent(amount)}%"
    for unit in sorted(units_of(dimension), key=lambda unit: (-UNITS[unit][1], unit)):
        count = amount / UNITS[unit][1]
        if count == int(count) and count and int(count) * UNITS[unit][1] == amount:
            return f"{int(count)}{unit}"
    return f"{amount!r}{'B' if dimension == 'bytes' else 's'}"


def _percent(fraction: float) -> str:
    """Return the shortest number whose hundredth part is exactly `fraction`."""
    near = below = above = fraction * 100
    candidates = [float(f"{near:.{digits}g}") for digits in range(1, 17)]
    for _ in range(_ULPS):
        below, above = nextafter(below, -inf), nextafter(above, inf)
        candidates += [below, above]
    exact = next((each for each in [*candidates, near] if each / 100 == fraction), near)
    return str(int(exact)) if exact == int(exact) else repr(exact)


def call(given: ir.Call, type: Type | None = None) -> str:  # noqa: A002 the schema's word for it
    """Return the text of a call of a function of the language or of a Keras object, as `type` says."""
    if type is not None and type.kind == "either":
        type = next((option for option in type.options if option.kind in {"call", "keras"}), None)  # noqa: A001
    if type is not None and type.kind == "call" and type.of in _BARE and not given.args and not given.kwargs:
        return given.name
    return called(given, function_at(type or kinds.ANY, given.name))


def called(given: ir.Call, function: Function | None) -> str:
    """Return the text of a call of `function`."""
    return f"{given.name}({_arguments(given, function, value)})"


def _arguments(
    given: ir.Call | ir.Operation, function: Function | None, write: Callable[[Any, Type | None], str]
) -> str:
    """Return the arguments of a call, each written as the type of its parameter wants it."""
    by_place = () if function is None else function.positional
    types = [each.type for each in by_place] + [None] * len(given.args)
    written = [write(each, type_) for each, type_ in zip(given.args, types, strict=False)]
    for name, each in given.kwargs.items():
        parameter = None if function is None else function.argument(name)
        rest = None if function is None else function.rest
        written.append(f"{name} = {write(each, rest if parameter is None else parameter.type)}")
    return ", ".join(written)


def _item(type: Type | None) -> Type | None:  # noqa: A002 the schema's word for it
    if type is not None and type.kind == "either":
        type = next((option for option in type.options if option.kind == "list"), None)  # noqa: A001
    return None if type is None else type.item


def _is_word(text: str, type: Type | None) -> bool:  # noqa: A002 the schema's word for it
    if type is None:
        return False
    options = type.options if type.kind == "either" else (type,)
    is_name = text.isascii() and all(part.isidentifier() for part in text.split("."))
    return is_name and any(text in option.words or option.kind == "tensor" for option in options)


def _arithmetic(given: Any, strength: int = 0) -> str:
    """Return an expression on parameters, in brackets if the outer operator binds more than `strength`."""
    if isinstance(given, ir.Parameter):
        return given.name
    if not isinstance(given, ir.Arithmetic):
        text = value(given)
        return f"({text})" if strength and text.startswith("-") else text
    own = _STRENGTH[given.operator]
    if given.operator == "negate":
        text = f"-{_arithmetic(given.left, own + 1)}"
    else:
        text = f"{_arithmetic(given.left, own)} {given.operator} {_arithmetic(given.right, own + 1)}"
    return f"({text})" if own < strength else text


# --- models and layers ------------------------------------------------------------------------------------

_INDENT = "  "


def model(given: ir.Model) -> str:
    """Return the text of the `model` block."""
    lines = [*_bindings(given.bindings)]
    if given.has_loss:
        lines.append(f"loss = {_loss(given)}")
    if given.regularize is not None:
        lines.append(f"regularize = {value(given.regularize, kinds.keras('regularizer'))}")
    if given.output is not None:
        lines.append(f"output = {_in_lines(given.output)}")
    if given.outputs:
        lines.append(block("output =", [f"{each.name} = {expression(each.value)}" for each in given.outputs]))
    if given.metrics:
        metrics = [f"{each.name} = {_objective(each.objective, 'metric')}" for each in given.metrics]
        lines.append(block("metrics", metrics))
    return block(f"model {quoted(given.name)}", lines)


def layer(given: ir.LayerBlock) -> str:
    """Return the text of a `layer` block."""
    lines = []
    for each in given.parameters:
        default = f", {value(each.default)}" if each.has_default else ""
        lines.append(f"{each.name} = parameter({each.type}{default})")
    lines += _bindings(given.bindings)
    if given.output is not None:
        lines.append(f"output = {_in_lines(given.output)}")
    return block(f"layer {quoted(given.name)}", lines)


def expression(given: Any, strength: int = 0, wanted: Type | None = None) -> str:
    """Return an expression that gives a tensor or a list of tensors, or an operand of an operation.

    It is in brackets if its place binds more than `strength`.
    """
    match given:
        case ir.Ref():
            return given.name
        case ir.Group():
            return f"[{', '.join(expression(each) for each in given.items)}]"
        case ir.Flow():
            text = " -> ".join(_flow(given))
            return f"({text})" if strength else text
        case ir.Index():
            tensor = expression(given.tensor, _NEGATIVE + 1)
            if isinstance(given.tensor, ir.Index):
                tensor = f"({tensor})"
            return f"{tensor}[{', '.join(_part(each) for each in given.parts)}]"
        case ir.Operation():
            return _operation(given, strength)
    return value(given, wanted)


def _part(given: Any) -> str:
    if isinstance(given, ir.Rest):
        return "..."
    if isinstance(given, ir.Slice):
        ends = ["" if each is None else value(each) for each in (given.first, given.last, given.step)]
        return ":".join(ends if given.step is not None else ends[:2])
    return expression(given)


def _operation(given: ir.Operation, strength: int) -> str:
    infix = _INFIX.get(given.function)
    if given.function == "negative" and len(given.args) == 1 and not given.kwargs:
        return _in_brackets(f"-{expression(given.args[0], _NEGATIVE + 1)}", _NEGATIVE, strength)
    if infix is not None and len(given.args) == len("ab") and not given.kwargs and _has_tensor(given):
        left, right = given.args
        own = infix[1]
        return _in_brackets(f"{expression(left, own)} {infix[0]} {expression(right, own + 1)}", own, strength)
    function = function_at(kinds.keras("operation"), given.function)
    arguments = _arguments(given, function, lambda each, wanted: expression(each, wanted=wanted))
    return f"{PREFIX}{given.function}({arguments})"


def _has_tensor(given: ir.Operation) -> bool:
    return any(isinstance(each, ir.Ref | ir.Flow | ir.Index | ir.Operation) for each in given.args)


def _in_brackets(text: str, own: int, strength: int) -> str:
    return f"({text})" if own < strength else text


_INFIX = {"add": ("+", 1), "subtract": ("-", 1), "multiply": ("*", 2), "divide": ("/", 2)}
_PRODUCT = 2
_NEGATIVE = 3


def step(given: ir.Step) -> str:
    """Return one step of a flow, with the arguments of the layer's own call if it has any."""
    text = _made(given)
    if not given.given:
        return text
    named = (f"{name} = {expression(each)}" for name, each in given.given.items())
    return f"{text}({', '.join(named)})"


def _made(given: ir.Step) -> str:
    if given.kind == "shared":
        return given.call.name
    if given.kind == "repeat" and given.inner is not None:
        return f"repeat({value(given.count)}, {step(given.inner)})"
    if given.kind == "python":
        return called(given.call, schema.function("layer", "python"))
    if given.kind == "block":
        return called(given.call, None)
    category, name = "layer", given.call.name
    if given.kind == "application":
        category, name = "application", name.rpartition(".")[2]
    function = function_at(kinds.keras(category), name)
    return called(given.call, function and step_function(function))


def _flow(given: ir.Flow) -> list[str]:
    source = expression(given.source)
    return [
        f"({source})" if isinstance(given.source, ir.Flow) else source,
        *(step(each) for each in given.steps),
    ]


def _bindings(bindings: tuple[ir.Binding, ...]) -> Iterator[str]:
    for each in bindings:
        names = ", ".join(each.names)
        yield f"{names} = {_bound(each.value, len(names))}"


def _bound(given: ir.Input | ir.SharedLayer | ir.Weight | ir.Expr, width: int) -> str:
    if isinstance(given, ir.Input):
        if given.dtype is None or given.shape is None:
            return "input()"
        assume: ir.Value = given.assume[0] if len(given.assume) == 1 else given.assume
        more = f", assume = {value(assume)}" if given.assume else ""
        return f"input({given.dtype}, {value(given.shape)}{more})"
    if isinstance(given, ir.SharedLayer):
        return f"layer({step(given.step)})"
    if isinstance(given, ir.Weight):
        return called(given.call, weight_function())
    text = expression(given)
    one_step = not isinstance(given, ir.Flow) or len(given.steps) == 1
    if one_step and width + len(text) + len("    = ") <= WIDTH:
        return text
    return f"\n{_INDENT}-> ".join(_flow(given)) if isinstance(given, ir.Flow) else text


def _in_lines(given: ir.Expr) -> str:
    """Return what `output` is, with a line for each step if it is too long for one."""
    text = expression(given)
    if not isinstance(given, ir.Flow) or len(text) + len("  output = ") <= WIDTH:
        return text
    return f"\n{_INDENT}-> ".join(_flow(given))


def _loss(given: ir.Model) -> str:
    terms = given.loss
    if len(terms) == 1 and terms[0].weight == 1 and not given.tensor_terms:
        return _objective(terms[0].objective, "loss")
    texts = []
    for each in terms:
        weight = "" if each.weight == 1 else f"{plain(each.weight)} * "
        texts.append(f"{weight}({_objective(each.objective, 'loss')})")
    text = " + ".join(texts)
    for term in given.tensor_terms:
        sign = " - " if term.weight < 0 else " + "
        text += f"{sign if text else sign.strip(' +')}{expression(term.tensor, _PRODUCT)}"
    return text


def _objective(given: ir.Objective, category: str) -> str:
    tensors = [given.target, given.prediction, *([given.example_weights] if given.example_weights else [])]
    call = given.call
    if given.class_weights:
        call = evolve(call, kwargs={**call.kwargs, CLASS_WEIGHT: given.class_weights})
    written = ", ".join(expression(each) for each in tensors)
    return f"[{written}] -> {value(call, kinds.keras(category))}"


def block(header: str, lines: Sequence[str]) -> str:
    """Return the text of a block."""
    inside = "".join(f"{line}\n" for line in lines)
    return f"{header} {{\n{inside}}}"
