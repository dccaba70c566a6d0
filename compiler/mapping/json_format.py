"""`placement.json`: the placement map as JSON, and back."""

from __future__ import annotations

import json
from typing import Any

import attrs

from compiler.mapping.records import PlacementMap
from dsl.typed_json import NAME, parse_record

FIRST = "format_version"
LIMIT = 1 << 28
"""The most bytes of a map: that of ResNet-50 on eight GPUs has a twentieth of it."""


def dump(placement: PlacementMap) -> str:
    """Return the JSON text of a map, format version first, one op or variable a line."""
    fields = _plain(placement)
    fields = {FIRST: fields.pop(FIRST), **fields}
    lines = [f"{json.dumps(key)}: {_value(value)}" for key, value in fields.items()]
    return "{" + ",\n ".join(lines) + "}\n"


def _plain(value: Any) -> Any:
    if attrs.has(type(value)):
        fields = attrs.fields(type(value))
        return {each.metadata.get(NAME, each.name): _plain(getattr(value, each.name)) for each in fields}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _value(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n  " + ",\n  ".join(json.dumps(each) for each in value) + "]"
    return json.dumps(value)


def load(text: bytes | str) -> PlacementMap:
    """Return the map that `dump` wrote; fields of later minor versions are passed over.

    Raises BadRecord, a ValueError that says why, if the text is no placement map.
    """
    return parse_record(text, PlacementMap, LIMIT)
