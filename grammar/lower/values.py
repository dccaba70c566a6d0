"""Typed values of expressions, including calls.

Arguments of calls are values and values can be calls, so both are in one module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from attrs import evolve

from dsl import ir, schema, syntax
from dsl.errors import names, references, types
from dsl.schema import Function, Type, signatures
from dsl.schema import types as kinds
from dsl.schema.functions import function_at
from dsl.source import Span
from dsl.suggest import nearest
from dsl.values import Quantity, kind_of
from grammar.lower.context import BAD, Context, all_of
from grammar.lower.evaluate import (
    ValuePlace,
    described,
    evaluate,
    fitted,
    has_length,
    labels_of,
    misplaced_value,
)

LAZY = "lazy"
"""The argument of some optimizers that Keras does not have."""

Reader: TypeAlias = "Callable[[syntax.Expr, Type, str], Any]"
"""Reads the value of an argument: what is written, the type of the place, and its name for messages."""


def typed(  # noqa: PLR0911 one for each kind
    expression: syntax.Expr,
    type: Type,  # noqa: A002
    what: str,
    context: Context,
) -> Any:
    """Return the value of an expression with the type in the schema, or BAD if it has an error."""
    if isinstance(expression, syntax.Broken):
        return BAD
    if type.kind == "either":
        return typed(expression, _option(expression, type, context), what, context)
    if type.kind in {"call", "keras"} or (type.kind == "any" and isinstance(expression, syntax.Call)):
        return called(expression, type, what, context)
    if (
        type.kind == "any"
        and isinstance(expression, syntax.List)
        and any(
            isinstance(each, syntax.Call)
            for each in expression.items  # such as the cells of `StackedRNNCells`
        )
    ):
        return all_of([typed(each, type, f"an item of {what}", context) for each in expression.items])
    if isinstance(expression, syntax.Range) and type.ranged:
        return ends(expression, type.low, type.high, context)
    if isinstance(expression, (syntax.Call, syntax.Flow, syntax.Comparison, syntax.Range)):
        return misplaced_value(expression, what, type.described(), context)
    if type.kind == "tensor":
        return _tensor(expression, what, context)
    if type.words:
        return word(expression, type, what, context)
    if type.kind in {"list", "shape"} and isinstance(expression, syntax.List):
        return _items(expression, type, what, context)
    place = ValuePlace(type, what, expression.span, labels_of(expression, context), context)
    wanted = "" if type.kind in {"str", "any"} else f"{what} takes {type.described()}"
    return fitted(evaluate(expression, context, wanted=wanted), place)


def ends(written: syntax.Range, low: float | None, high: float | None, context: Context) -> Any:
    """Return the first and the last number of a range, or BAD if it has an error."""
    type_ = Type("int", low=low, high=high)
    first = typed(written.first, type_, "the start of a range", context)
    last = typed(written.last, type_, "the end of a range", context)
    if first is BAD or last is BAD:
        return BAD
    if last < first:
        return context.refuse(types.descending_range(written.span, first=first, last=last))
    return first, last


def word(expression: syntax.Expr, type: Type, what: str, context: Context) -> Any:  # noqa: A002
    """Return the word of `type` that an expression is: a name, a string, or a constant with a string."""
    if isinstance(expression, syntax.Path) and _is_word(expression, type.words):
        value: Any = expression.name
    else:
        value = evaluate(expression, context, type.words)
    if value is BAD or isinstance(value, (ir.Parameter, ir.Arithmetic)):
        return value
    if value is None and (type.optional or "none" in type.words):
        return None if type.optional else "none"
    labels = labels_of(expression, context)
    if not isinstance(value, str):
        return ValuePlace(type, what, expression.span, labels, context).wrong_type(value)
    if value in type.words:
        return value
    return context.refuse(types.invalid_choice(what, value, type.words, expression.span, labels))


def _is_word(path: syntax.Path, words: tuple[str, ...]) -> bool:
    """Whether a path is one of some words, or has dots as they have: `data.train`."""
    if path.bare is not None:
        return path.bare in words
    return path.has_no_index and any("." in each for each in words)


def _items(expression: syntax.List, type: Type, what: str, context: Context) -> Any:  # noqa: A002
    """Evaluate a list that is written out, so that each error points to its item."""
    item = type.item if type.kind == "list" else None
    if item is None:
        if not has_length(expression.items, ValuePlace(type, what, expression.span, (), context)):
            return BAD
        item = evolve(type, optional=True, length=None)
    return all_of([typed(each, item, f"an item of {what}", context) for each in expression.items])


def _option(expression: syntax.Expr, type: Type, context: Context) -> Type:  # noqa: A002
    """Choose the alternative of a type that the form of an expression fits best."""
    kinds: dict[str, Type] = {option.kind: option for option in type.options}
    value = None
    if isinstance(expression, (syntax.Path, syntax.Chain, syntax.Number, syntax.Negative)):
        value = evaluate(expression, context.silent())
    if isinstance(expression, syntax.Call) or _names_function(expression, kinds.get("call")):
        wanted = "keras" if "keras" in kinds else "call"
    elif isinstance(expression, syntax.List) or isinstance(value, tuple):
        wanted = "list"
    elif isinstance(value, Quantity):
        wanted = "quantity"
    else:
        wanted = type.options[0].kind
    return kinds.get(wanted, type.options[0])


def _names_function(expression: syntax.Expr, type: Type | None) -> bool:  # noqa: A002
    """Whether an expression is the bare name of a function that a type allows calls of."""
    name = expression.bare if isinstance(expression, syntax.Path) else None
    return type is not None and name is not None and schema.function(type.of, name) is not None


def _tensor(expression: syntax.Expr, what: str, context: Context) -> Any:
    """Return the name of a tensor of the examples."""
    if isinstance(expression, syntax.Path) and expression.bare is not None:
        name = expression.bare
    elif isinstance(expression, syntax.Text):
        name = expression.value
    else:
        found = described(expression)
        return misplaced_value(expression, what, "the name of a tensor", context, found=found)
    known = context.tensors
    if known is not None and name not in known:
        return context.refuse(references.unknown_tensor(expression.span, name=name, known=sorted(known)))
    return name


# --- calls ---


def called(expression: syntax.Expr, type: Type, what: str, context: Context) -> Any:  # noqa: A002, PLR0911 one for each kind
    """Return the call, or the word, in a place whose type allows calls."""
    if isinstance(expression, syntax.Call):
        return _call(expression, type, context)
    if type.kind == "call":
        return _bare(expression, type, what, context)
    if type.words and not isinstance(expression, (syntax.Flow, syntax.Comparison)):
        return word(expression, type, what, context)
    if isinstance(expression, syntax.Constant) and expression.value is None and type.optional:
        return None
    if isinstance(expression, syntax.Path) and _known(type.of, expression.name):
        return context.refuse(references.not_called(expression.span, kind=type.of, name=expression.name))
    near = _near_call(expression, type, context)
    if near is not None:
        return context.refuse(
            references.not_called(
                expression.span, kind=type.of or "", name=near, written=expression.span.text
            )
        )
    return _not_a_call(expression, type, what, context)


def _near_call(expression: syntax.Expr, type: Type, context: Context) -> str | None:  # noqa: A002
    """Return the Keras object that a bare word resembles, as `adam` resembles `Adam`, or None."""
    if (
        not isinstance(expression, syntax.Path)
        or expression.bare is None
        or type.kind != "keras"
        or not type.of
    ):
        return None
    if expression.bare in context.constants or expression.bare in context.parameters:
        return None
    near = nearest(expression.bare, [*context.constants, *context.parameters, *signatures.names(type.of)])
    return near if near is not None and signatures.find(type.of, near) is not None else None


def _not_a_call(expression: syntax.Expr, type: Type, what: str, context: Context) -> Any:  # noqa: A002
    if isinstance(expression, (syntax.Flow, syntax.Comparison)):
        found = described(expression)
    else:
        known = (
            signatures.names(type.of) if type.kind == "keras" and type.of else schema.function_names(type.of)
        )
        value = evaluate(expression, context, known)
        if value is BAD or isinstance(value, (ir.Parameter, ir.Arithmetic)):
            return value
        found = kind_of(value)
    labels = () if isinstance(expression, syntax.Flow) else labels_of(expression, context)
    advice = _as_call(expression, type)
    return context.refuse(
        types.wrong_type(
            expression.span, what=what, takes=type.described(), found=found, labels=labels, advice=advice
        )
    )


def _as_call(expression: syntax.Expr, type: Type) -> str | None:  # noqa: A002
    """Return the advice to write a call instead of a string, as in `optimizer = "adam"`, or None."""
    if not isinstance(expression, syntax.Text) or type.kind != "keras" or not type.of:
        return None
    near = nearest(expression.value, signatures.names(type.of))
    known = near or (expression.value if signatures.find(type.of, expression.value) else None)
    return None if known is None else f"write `{known}()`"


def _bare(expression: syntax.Expr, type: Type, what: str, context: Context) -> Any:  # noqa: A002
    """Evaluate a function that is named without brackets, as in `aggregate = add_n`."""
    name = None
    if isinstance(expression, syntax.Path):
        name = expression.bare
    elif isinstance(expression, syntax.Text):
        name = expression.value
    elif isinstance(expression, syntax.Constant) and expression.value is None and type.optional:
        return None
    function = schema.function(type.of, name) if name is not None else None
    if function is None or name is None:
        known = schema.function_names(type.of)
        if isinstance(expression, syntax.Text):
            return context.refuse(types.invalid_choice(what, expression.value, known, expression.span))
        return _not_a_call(expression, type, what, context)
    call = syntax.Call(_as_path(expression, name), (), span=expression.span)
    return bound(call, function, context)


def _as_path(expression: syntax.Expr, name: str) -> syntax.Path:
    segment = syntax.Segment(name, expression.span, span=expression.span)
    return syntax.Path((segment,), span=expression.span)


def _call(call: syntax.Call, type: Type, context: Context) -> Any:  # noqa: A002
    """Return a call of a function of a table or of a Keras object, as the type says."""
    function = function_at(type, call.callee.name)
    if function is None:
        names_ = schema.function_names if type.kind == "call" else signatures.names
        return unknown(type.of or "Keras object", call, names_(type.of) if type.of else (), context)
    if function.name == "python" and not context.allow_python:
        context.reports.add(names.python_not_allowed(call.callee.span))
    return bound(call, function, context)


def unknown(kind: str, call: syntax.Call, known: tuple[str, ...], context: Context) -> Any:
    """Report a call of an unknown function, and evaluate its arguments to report their errors."""
    name = call.callee.name
    near = nearest(name, known)
    elsewhere = _known_as(name) if near is None else None
    span = call.callee.span
    if elsewhere is not None and elsewhere != kind:
        context.reports.add(references.other_kind(span, kind=kind, name=name, found=elsewhere))
    else:
        context.reports.add(references.unknown_function(kind, name, span, known, listed=True))
    return BAD


def _known(category: str, name: str) -> bool:
    return category in signatures.CATEGORIES and signatures.find(category, name) is not None


def _known_as(name: str) -> str | None:
    for category in signatures.CATEGORIES:
        if signatures.find(category, name) is not None:
            return category
    return next((table for table in schema.FUNCTIONS if schema.function(table, name) is not None), None)


def bound(call: syntax.Call, function: Function, context: Context, read: Reader | None = None) -> Any:
    """Check the arguments of a call against a function; return the call, or BAD if there is an error."""
    return _Binding(call, function, context, read).run()


class _Binding:
    """Binds the arguments of one call to the parameters of a function."""

    def __init__(
        self, call: syntax.Call, function: Function, context: Context, read: Reader | None = None
    ) -> None:
        self._call = call
        self._read = read
        self._function = function
        self._context = context
        self._given: dict[str, Span] = {}
        self._args: list[Any] = []
        self._arg_spans: list[Span] = []
        self._kwargs: dict[str, Any] = {}
        self._kwarg_spans: dict[str, Span] = {}
        self._surplus: list[syntax.Argument] = []
        self._late = False

    def run(self) -> Any:
        """Evaluate all arguments, and report what is wrong with each."""
        for argument in self._call.arguments:
            if argument.name is None:
                self._positional(argument)
            else:
                self._keyword(argument, argument.name)
        self._too_many()
        self._missing()
        values = [*self._args, *self._kwargs.values()]
        if self._surplus or any(value is BAD for value in values):
            return BAD
        return ir.Call(
            self._call.callee.name,
            tuple(self._args),
            self._kwargs,
            span=self._call.span,
            name_span=self._call.callee.span,
            arg_spans=tuple(self._arg_spans),
            kwarg_spans=self._kwarg_spans,
        )

    def _positional(self, argument: syntax.Argument) -> None:
        positional = self._function.positional
        at = len(self._args)
        if self._kwargs:
            if not self._late:
                self._context.reports.add(references.positional_after_keyword(argument.span))
            self._late = True
            self._args.append(BAD)
        elif at >= len(positional) and self._function.repeating:
            self._args.append(self._value(argument, f"argument {at + 1}", kinds.ANY))
        elif at >= len(positional):
            self._surplus.append(argument)
        else:
            parameter = positional[at]
            self._given[parameter.name] = argument.span
            self._args.append(self._value(argument, parameter.name, parameter.type))
        self._arg_spans.append(argument.value.span)

    def _keyword(self, argument: syntax.Argument, name: str) -> None:
        name_span = argument.name_span or argument.span
        parameter = self._function.argument(name)
        value: Any = BAD
        if name in self._given:
            first = self._given[name]
            report = references.repeated_argument(
                name_span, callee=self._call.callee.name, name=name, first=first
            )
            self._context.reports.add(report)
        elif parameter is not None:
            value = self._value(argument, name, parameter.type)
        elif self._function.rest is not None:
            value = self._value(
                argument, name, self._function.rest, "the tensor " * bool(self._function.tensor)
            )
        else:
            self._unknown(name, name_span)
        self._given.setdefault(name, name_span)
        self._kwargs[name] = value
        self._kwarg_spans[name] = argument.value.span

    def _value(self, argument: syntax.Argument, name: str, type: Type, kind: str = "") -> Any:  # noqa: A002
        what = f"{kind}`{name}` of `{self._call.callee.name}`"
        if self._read is not None:
            return self._read(argument.value, type, what)
        return typed(argument.value, type, what, self._context)

    def _unknown(self, name: str, span: Span) -> None:
        known = tuple(each.name for each in self._function.arguments)
        callee = self._call.callee.name
        near = nearest(name, [each for each in known if each not in self._given])
        others: tuple[str, ...] = ()
        if name == LAZY and signatures.find("optimizer", callee) is not None:
            others = signatures.with_argument("optimizer", LAZY)
        self._context.reports.add(references.unknown_argument(callee, name, span, near, known, others))

    def _too_many(self) -> None:
        if self._surplus:
            names_ = [each.name for each in self._function.positional]
            given = len(self._args) + len(self._surplus)
            span = self._surplus[0].span
            report = references.too_many_arguments(
                span, callee=self._call.callee.name, most=len(names_), given=given, names=names_
            )
            self._context.reports.add(report)

    def _missing(self) -> None:
        missing = [
            each.name for each in self._function.arguments if each.required and each.name not in self._given
        ]
        if not missing:
            return
        lost = any(isinstance(each.value, syntax.Broken) for each in self._call.arguments)
        unknown_names = (
            any(name not in {each.name for each in self._function.arguments} for name in self._kwargs)
            and self._function.rest is None
        )
        doubtful = lost or unknown_names or self._late or self._context.reports.is_tainted(self._call.span)
        if not doubtful:
            callee, function = self._call.callee, self._function
            known = [each.name for each in function.arguments]
            report = references.missing_argument(
                callee.span, callee=callee.name, names=missing, others=known, tensor=function.tensor
            )
            self._context.reports.add(report)
        self._args.append(BAD)
