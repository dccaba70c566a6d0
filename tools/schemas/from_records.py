"""Makes a JSON schema (draft 2020-12) of an attrs record that `dsl/files/typed_json.py` reads or writes.

The schema accepts what that reader accepts: a field with a default may be missing, because a file of an
earlier version may lack it, and further fields are allowed, because a later version may add them. Only the
reader's bounds of 64 bits for whole numbers are left out.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs

from dsl.files.typed_json import NAME, Count, Digits, Measured, Size

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_WHOLE = {"type": "integer"}
_COUNT = {"type": "integer", "minimum": 0}
_PLAIN: tuple[tuple[Any, dict[str, Any]], ...] = (
    (str, {"type": "string"}),
    (bool, {"type": "boolean"}),
    (int, _WHOLE),
    (float, {"type": "number"}),
    (NoneType, {"type": "null"}),
    (Any, {}),
    (Count, _COUNT),
    (Size, {"type": "integer", "minimum": 1}),
    (Digits, {"anyOf": [_COUNT, {"type": "string", "pattern": "^[0-9]+$"}]}),
    (Measured, {"type": ["number", "null"]}),
)
_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def schema_of(record: type, identifier: str, title: str) -> dict[str, Any]:
    """Return the schema of a record.

    Args:
        record: The attrs class. Its docstring, and those of the records in it, become descriptions.
        identifier: The `$id`.
        title: What the schema is of, in a few words.
    """
    definitions: dict[str, Any] = {}
    whole = _object(record, definitions)
    head = {"$schema": DIALECT, "$id": identifier, "title": title}
    return {**head, **whole, **({"$defs": dict(sorted(definitions.items()))} if definitions else {})}


def _object(record: type, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(record, include_extras=True)
    summary, attributes = _described(record)
    properties, required = {}, []
    for each in attrs.fields(record):
        name = each.metadata.get(NAME, each.name)
        properties[name] = _of_type(hints[each.name], definitions)
        if each.name in attributes:
            properties[name] = {"description": attributes[each.name], **properties[name]}
        if each.default is attrs.NOTHING:
            required.append(name)
    found: dict[str, Any] = {"description": summary, "type": "object", "properties": properties}
    return {**found, "required": required} if required else found


def _of_type(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    for known, schema in _PLAIN:
        if kind == known:
            return dict(schema)
    if attrs.has(kind):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}  # a record that contains itself ends here
            definitions[kind.__name__] = _object(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"enum": list(parts)}
    if origin is tuple:
        assert parts[1:] == (...,), kind
        return {"type": "array", "items": _of_type(parts[0], definitions)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _of_type(parts[1], definitions)}
    assert origin in {Union, UnionType}, f"{kind} has no schema"
    return {"anyOf": [_of_type(each, definitions) for each in parts]}


def _described(record: type) -> tuple[str, dict[str, str]]:
    """Return the first paragraph of the docstring of a record, and what it says of each attribute."""
    text = inspect.cleandoc(record.__doc__ or "")
    summary, _, rest = text.partition("\n\nAttributes:\n")
    attributes = {name: _plain(words) for name, words in _ATTRIBUTE.findall(rest)}
    return _plain(summary.partition("\n\n")[0]), attributes


def _plain(words: str) -> str:
    """Return words of a docstring on one line, about JSON in place of Python."""
    return re.sub(r"\bNone\b", "null", " ".join(words.split()))
