"""A plugin of mypy, which checks calls of the rows of `dsl/errors/` by the fields of their texts."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from mypy.nodes import ARG_NAMED, ARG_NAMED_OPT, ARG_STAR2, CallExpr, RefExpr
from mypy.plugin import MethodSigContext, Plugin, ReportConfigContext
from mypy.types import FunctionLike, NoneType, Type, UnionType, get_proper_type

import dsl.errors
from dsl.errors.wording import Field, Row


class Rows(Plugin):
    """Gives mypy the fields of each row."""

    def get_method_signature_hook(self, fullname: str) -> Callable[[MethodSigContext], FunctionLike] | None:
        """Return what says which arguments the call of a row takes; None for other functions."""
        room, _, method = fullname.rpartition(".")
        return _signature if method == "__call__" and room.startswith("dsl.errors.") else None

    def report_config_data(self, ctx: ReportConfigContext) -> Any:
        """Return what modules depend on beside their text: if it changes, mypy checks them again."""
        return (
            _all_fields() if ctx.id.partition(".")[0] in {"dsl", "grammar", "compiler", "tfdeploy"} else None
        )


def _rows() -> Iterator[tuple[str, Row]]:
    for module in pkgutil.walk_packages(dsl.errors.__path__, "dsl.errors."):
        for name, each in vars(importlib.import_module(module.name)).items():
            if isinstance(each, Row):
                yield f"{module.name}.{name}", each


@cache
def _all_fields() -> str:
    return repr([(name, row.fields, row.labelled) for name, row in _rows()])


def _signature(call: MethodSigContext) -> FunctionLike:
    """Return the signature of `__call__` with the fields of the row that is called in place of `**fields`."""
    signature, at = call.default_signature, call.context
    row = (
        dict(_rows()).get(at.callee.fullname)
        if isinstance(at, CallExpr) and isinstance(at.callee, RefExpr)
        else None
    )
    if row is None:
        call.api.fail("a row is called by its name", at)
        return signature
    kept = [
        each
        for each in zip(signature.arg_types, signature.arg_kinds, signature.arg_names, strict=True)
        if each[1] is not ARG_STAR2 and (each[2] != "labels" or row.labelled)
    ]
    kept += [
        (_type(field, call), ARG_NAMED_OPT if field.optional else ARG_NAMED, name)
        for name, field in row.fields.items()
    ]
    return signature.copy_modified(
        arg_types=[each[0] for each in kept],
        arg_kinds=[each[1] for each in kept],
        arg_names=[each[2] for each in kept],
    )


def _type(field: Field, call: MethodSigContext) -> Type:
    """Return the type of what a field is filled with."""
    named = call.api.named_generic_type
    given = get_proper_type(call.default_signature.arg_types[0])  # of a row with a place: Span | None
    text, number = named("builtins.str", []), named("builtins.int", [])
    made: Type = {
        "text": text,
        "number": number,
        "flag": named("builtins.bool", []),
        "names": named("typing.Iterable", [text]),
        "sizes": named("typing.Iterable", [UnionType([number, NoneType()])]),
        "place": given.items[0] if isinstance(given, UnionType) else given,
    }[field.kind]
    return UnionType([made, NoneType()]) if field.optional else made


def plugin(version: str) -> type[Plugin]:  # noqa: ARG001 mypy calls it so
    """Return the plugin, as mypy asks for it."""
    return Rows
