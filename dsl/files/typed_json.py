"""JSON files and environment variables as attrs records: read with checked types, and written.

Every file that the tool reads back has a record class and is read here. Every fault of such a text raises
`BadRecord`: a text that is too long, not UTF-8, not JSON or nested too deeply, numbers that are not finite or
need more than 64 bits, and fields that are missing or have another type. Fields that the class does not have
are ignored, because the file may have been written by a later version.

cattrs is imported when the first record is read or written, so that other commands start quickly.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from operator import eq
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, Self, TypeVar, get_args, get_origin

import attrs

from dsl.files.regular import open_regular

if TYPE_CHECKING:
    from pathlib import Path

    from cattrs import Converter

Count = Annotated[int, "not negative"]
"""A whole number that is not negative."""

Size = Annotated[int, "positive"]
"""A whole number that is not zero or negative."""

Digits = Annotated[int, "also as text"]
"""A whole number that is not negative; a text may stand for it."""

Measured = Annotated[float, "null if it is not finite"]
"""A number that was measured; JSON has no NaN, and null stands for it."""

LIMIT = 1 << 24
"""The largest size of a record in bytes, unless the caller gives another one."""

NAME = "name in JSON"
"""The key of a field's metadata under which its name in the file stands, if Python has no such name."""

DIGITS = "digits in JSON"
"""The key of a field's metadata under which the number of decimal places stands that are written."""

OPTIONAL = "left out of JSON if None"
"""The key of the metadata of a field that is written only if it is not None."""

_KEY = re.compile(r"\[['\"].*", re.DOTALL)  # in the path of a value, a key that the text has made up
_LACKING = "is missing"
_LEAST, _MOST = -(2**63), 2**63 - 1

Read = TypeVar("Read")


class BadRecord(ValueError):  # noqa: N818 what is wrong with it is no error of the caller's
    """Raised if a text is not a valid record; the message is meant to follow the name of the text.

    The message may have names of fields in it, but no values, because a value may be a secret.
    """


def read_record(path: Path | str, record: type[Read], limit: int = LIMIT) -> Read:
    """Read a whole file as a record.

    Raises:
        BadRecord: If the content is not such a record or is larger than `limit`.
        OSError: If the file cannot be read or is not a regular file.
    """
    with open_regular(path) as file:
        text = file.read(limit + 1)
    return parse_record(text, record, limit)


def parse_record(text: bytes | str, record: type[Read], limit: int = LIMIT) -> Read:
    """Read a text as a record; raises BadRecord if it is none or is larger than `limit`."""
    content = _content(text, limit)
    try:
        return _converter(detailed=False).structure(content, record)
    except Exception:  # noqa: BLE001 cattrs raises errors of many kinds, also plain ones
        raise BadRecord(_why(content, record)) from None


class JsonRecord:
    """A record that is written as JSON and read again."""

    __slots__ = ()

    def to_json(self, *, indent: int | None = None) -> str:
        """Return JSON, in one line unless `indent` is given; numbers that are not finite are null."""
        return to_json(self, indent=indent)

    @classmethod
    def read(cls, text: bytes | str) -> Self | None:
        """Return the record of a text, or None if the text is no such record."""
        try:
            return parse_record(text, cls)
        except BadRecord:
            return None


def to_json(record: Any, *, indent: int | None = None) -> str:
    """Return a record as JSON, in one line unless `indent` is given; numbers that are not finite are null."""
    return json.dumps(plain(record), indent=indent, allow_nan=False)


def plain(record: Any) -> Any:
    """Return a record as what JSON has: fields with their names there, lists, texts and numbers."""
    return _writer().unstructure(record)


# --- JSON -------------------------------------------------------------------------------------------------


def _content(text: bytes | str, limit: int) -> Any:
    if len(text) > limit:
        raise BadRecord(f"is longer than {limit:,} bytes")
    try:
        written = text if isinstance(text, str) else text.decode()
        return json.loads(written, parse_float=_finite, parse_constant=_no_number)
    except UnicodeDecodeError:
        raise BadRecord("is no text in UTF-8") from None
    except RecursionError:
        raise BadRecord("is nested too deeply") from None
    except json.JSONDecodeError as fault:
        raise BadRecord(f"is not JSON (line {fault.lineno}, column {fault.colno})") from None
    except BadRecord:
        raise
    except ValueError:  # Python refuses to convert thousands of digits
        raise BadRecord("has a number that is too large") from None


def _finite(digits: str) -> float:
    found = float(digits)
    if not math.isfinite(found):
        raise BadRecord("has a number that is too large")
    return found


def _no_number(name: str) -> NoReturn:
    raise BadRecord(f"has {name}, which is no number in JSON")


# --- types ------------------------------------------------------------------------------------------------


class _Wrong(ValueError):  # noqa: N818 as above
    """A value is not of the type of its field; the message says so, to stand after the field's name."""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Wrong("is no text")
    try:
        value.isascii() or value.encode(errors="surrogateescape")  # the name of a file may have such bytes
    except UnicodeEncodeError:
        raise _Wrong("has half of a pair of surrogates, which is no text") from None
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Wrong("is neither true nor false")
    return value


def _whole(value: Any, least: int | None = None) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _Wrong("is no whole number")
    if not _LEAST <= value <= _MOST:
        raise _Wrong("is too large")
    if least is not None and value < least:
        raise _Wrong("is negative" if value else "is zero")
    return value


def _digits(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < len(str(_MOST)):
        return int(value)
    return _whole(value, 0)


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _Wrong("is no number")
    try:
        return float(value)
    except OverflowError:
        raise _Wrong("is too large") from None


def _one_of(value: Any, kind: Any) -> Any:
    known = get_args(kind)
    if not isinstance(value, str) or value not in known:
        raise _Wrong(f"is none of {', '.join(f'`{each}`' for each in known)}")
    return value


_HOOKS: Mapping[Any, Callable[[Any], Any]] = {
    str: _text,
    bool: _truth,
    int: _whole,
    float: _number,
    Count: partial(_whole, least=0),
    Size: partial(_whole, least=1),
    Digits: _digits,
    Measured: lambda value: math.nan if value is None else _number(value),
}
"""What makes values of plain types of those of JSON, or raises `_Wrong`."""


@cache
def _converter(*, detailed: bool) -> Converter:
    """Return what makes records of JSON; without details it is twice as fast, with them it says where."""
    from cattrs import Converter
    from cattrs.cols import homogenous_tuple_structure_factory as make_tuple
    from cattrs.gen import make_dict_structure_fn, mapping_structure_factory, override

    converter = Converter(detailed_validation=detailed)
    make: Any = make_dict_structure_fn

    def of_class(cls: Any) -> Any:
        attrs.resolve_types(cls)
        named = [each for each in attrs.fields(cls) if NAME in each.metadata]
        names = {each.name: override(rename=each.metadata[NAME]) for each in named}
        return _only(dict, "is no object", make(cls, converter, **names))

    def of_mapping(kind: Any) -> Any:
        return _only(dict, "is no object", mapping_structure_factory(kind, converter))

    def of_tuple(kind: Any) -> Any:
        return _only(list, "is no list", make_tuple(kind, converter))

    def has_origin(*origins: Any) -> Callable[[Any], bool]:
        return lambda kind: get_origin(kind) in origins

    converter.register_structure_hook_factory(attrs.has, of_class)
    converter.register_structure_hook_factory(has_origin(dict, Mapping), of_mapping)
    converter.register_structure_hook_factory(has_origin(tuple), of_tuple)
    converter.register_structure_hook_func(has_origin(Literal), _one_of)
    for kind, hook in _HOOKS.items():
        if isinstance(kind, type):
            converter.register_structure_hook(kind, _alone(hook))
        else:
            converter.register_structure_hook_func(partial(eq, kind), _alone(hook))
    return converter


@cache
def _writer() -> Converter:
    """Return what makes JSON of records."""
    from cattrs import Converter
    from cattrs.gen import make_dict_unstructure_fn, override

    converter = Converter()
    make: Any = make_dict_unstructure_fn

    def of_class(cls: Any) -> Any:
        attrs.resolve_types(cls)
        fields = attrs.fields(cls)
        optional = {each.name for each in fields if OPTIONAL in each.metadata}
        hooks: dict[str, Any] = {each.name: {"rename": each.metadata.get(NAME)} for each in fields}
        for each in fields:
            if DIGITS in each.metadata:
                hooks[each.name]["unstruct_hook"] = partial(_rounded, digits=each.metadata[DIGITS])
        fields_of = make(cls, converter, **{name: override(**hook) for name, hook in hooks.items()})
        return lambda record: {
            name: value
            for name, value in fields_of(record).items()
            if value is not None or name not in optional
        }

    converter.register_unstructure_hook_factory(attrs.has, of_class)
    converter.register_unstructure_hook(float, _rounded)
    converter.register_unstructure_hook_func(lambda kind: kind == Measured, _rounded)
    return converter


def _rounded(value: float | None, digits: int | None = None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return value if digits is None else round(value, digits)


def _alone(hook: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda value, _: hook(value)


def _only(kind: type, words: str, structure: Any) -> Any:
    def checked(value: Any, wanted: Any) -> Any:
        if not isinstance(value, kind):
            raise _Wrong(words)
        return structure(value, wanted)

    return checked


# --- words ------------------------------------------------------------------------------------------------


def _why(content: Any, record: Any) -> str:
    """Say what of `content` keeps it from being a `record`: the first such thing."""
    from cattrs import transform_error

    try:
        _converter(detailed=True).structure(content, record)
    except Exception as fault:  # noqa: BLE001 as above
        words, _, place = transform_error(fault, format_exception=_words)[0].rpartition(" @ $")
        place = _as_in_file(_KEY.sub("[...]", place.removeprefix(".")), record)
        if not place:
            return words
        return f"lacks `{place}`" if words == _LACKING else f"has `{place}`, which {words}"
    return "cannot be read"


def _as_in_file(place: str, record: Any) -> str:
    """Return the path of a value with the names that fields have in the file."""
    kind, parts = record, []
    for part in place.split("."):
        name, bracket, index = part.partition("[")
        found = _class_in(kind)
        field = None if found is None else getattr(attrs.fields(found), name, None)
        kind = None if field is None else field.type
        parts.append((name if field is None else field.metadata.get(NAME, name)) + bracket + index)
    return ".".join(parts)


def _class_in(kind: Any) -> Any:
    """Return the class of the records that a type is made of, or None if it has none."""
    if isinstance(kind, type) and attrs.has(kind):
        return kind
    return next((found for each in get_args(kind) if (found := _class_in(each)) is not None), None)


def _words(fault: BaseException, _: type | None) -> str:
    if isinstance(fault, KeyError):
        return _LACKING
    return str(fault) if isinstance(fault, _Wrong) else "cannot be used"
