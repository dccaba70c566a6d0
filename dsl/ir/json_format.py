"""The IR as JSON. A record is an object whose `node` is the name of its class; spans are left out.

Importing this module imports cattrs, so it is imported only where it is used.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, Union, get_origin

import attrs
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from dsl import ir
from dsl.source import Span

FORMAT_VERSION = "1.0"
TAG = "node"
_UNIONS = ("Value", "Expr", "Operand", "Target")
_PLACES = ("span", "spans", "name_span", "other_spans", "arg_spans", "kwarg_spans", "includes")


class FormatError(ValueError):
    """Raised if a text is not an IR in JSON; the message says what is wrong with it."""


def to_json(spec: ir.Spec) -> str:
    """Return a spec as JSON, with `format_version` as its first member and a newline at the end."""
    content = {"format_version": FORMAT_VERSION, "spec": _converter().unstructure(spec)}
    return json.dumps(content, indent=2) + "\n"


def from_json(text: str) -> ir.Spec:
    """Return the spec that `to_json` wrote. It equals the original but has no spans.

    Raises:
        FormatError: If the text is not a spec in this format.
    """
    try:
        content = json.loads(text)
        _check_version(content["format_version"])
        spec = _converter().structure(content["spec"], ir.Spec)
    except FormatError:
        raise
    except Exception as error:  # cattrs raises groups of many kinds, json and look-ups others
        raise FormatError(f"not a spec in JSON: {error}") from error
    return spec


def _check_version(version: str) -> None:
    if version.partition(".")[0] != FORMAT_VERSION.partition(".")[0]:
        raise FormatError(f"format version {version} is not one that is known ({FORMAT_VERSION})")


@cache
def _converter() -> Converter:
    converter = Converter(forbid_extra_keys=True)
    converter.register_unstructure_hook_factory(attrs.has, lambda cls: _unstructurer(cls, converter))
    converter.register_structure_hook_factory(attrs.has, lambda cls: _structurer(cls, converter))
    converter.register_structure_hook_func(_is_union, _value)
    for kind in (str, int, float, bool):
        converter.register_structure_hook(kind, _plain)
    return converter


def _resolve(cls: type) -> None:
    """Give the fields of `cls` their types; the unions of the IR are strings, for they are recursive."""
    names = {**vars(typing), "Mapping": Mapping, "Span": Span, **vars(ir)}
    unions: dict[str, Any] = {}
    for name in _UNIONS:  # in this order, because a union may have those before it as members
        unions[name] = eval(getattr(ir, name), names, unions)  # noqa: S307 texts of our own
    attrs.resolve_types(cls, names, unions)


def _unstructurer(cls: type, converter: Converter) -> Any:
    _resolve(cls)
    plain: Any = make_dict_unstructure_fn(cls, converter, **_omitted(cls))
    return lambda record: {TAG: cls.__name__, **plain(record)}


def _structurer(cls: type, converter: Converter) -> Any:
    _resolve(cls)
    plain: Any = make_dict_structure_fn(cls, converter, _cattrs_forbid_extra_keys=True, **_omitted(cls))

    def structure(data: Any, _: Any) -> Any:
        if not isinstance(data, dict) or data.get(TAG) != cls.__name__:
            raise FormatError(f"a {cls.__name__} was expected in place of {data!r:.80}")
        return plain({key: value for key, value in data.items() if key != TAG}, cls)

    return structure


def _omitted(cls: type) -> dict[str, Any]:
    return {each.name: override(omit=True) for each in attrs.fields(cls) if each.name in _PLACES}


def _plain(data: Any, kind: type) -> Any:
    """Return a plain value unchanged if it has the right type; an integer is also allowed as a number."""
    if type(data) is not kind and not (kind is float and type(data) is int):
        raise FormatError(f"a {kind.__name__} was expected in place of {data!r:.80}")
    return data


def _is_union(kind: Any) -> bool:
    return isinstance(kind, types.UnionType) or get_origin(kind) is Union


def _value(data: Any, _: Any) -> Any:
    """Return a value of any of the unions of the IR; the data name their own class."""
    if isinstance(data, list):
        return tuple(_value(item, None) for item in data)
    if not isinstance(data, dict):
        return data
    cls = getattr(ir, str(data.get(TAG)), None)
    if not isinstance(cls, type) or not attrs.has(cls):
        raise FormatError(f"{data.get(TAG)!r} is not a record of the IR")
    return _converter().structure(data, cls)
