"""`placement.json`: the placement map as JSON, and back."""

from __future__ import annotations

import json
from typing import Any

import cattrs
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from compiler.placement_map import MapTransfer, PlacementMap

FIRST = "format_version"


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(detailed_validation=False)  # tens of thousands of ops: twice as fast
    source, target = override(rename="from"), override(rename="to")
    converter.register_unstructure_hook(
        MapTransfer,
        make_dict_unstructure_fn(MapTransfer, converter, from_device=source, to_device=target),
    )
    converter.register_structure_hook(
        MapTransfer,
        make_dict_structure_fn(MapTransfer, converter, from_device=source, to_device=target),
    )
    return converter


def dump(placement: PlacementMap) -> str:
    """Return the JSON text of a map, format version first, one op or variable a line."""
    fields: dict[str, Any] = _converter().unstructure(placement)
    fields = {FIRST: fields.pop(FIRST), **fields}
    lines = [f"{json.dumps(key)}: {_value(value)}" for key, value in fields.items()]
    return "{" + ",\n ".join(lines) + "}\n"


def _value(value: Any) -> str:
    if isinstance(value, list | tuple) and value:
        return "[\n  " + ",\n  ".join(json.dumps(each) for each in value) + "]"
    return json.dumps(value)


def load(text: str) -> PlacementMap:
    """Return the map that `dump` wrote; fields of later minor versions are passed over.

    Raises ValueError where the text is no placement map.
    """
    try:
        return _converter().structure(json.loads(text), PlacementMap)
    except (cattrs.BaseValidationError, AttributeError, KeyError, TypeError, ValueError) as fault:
        raise ValueError("not a placement map") from fault
