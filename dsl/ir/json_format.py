"""The IR as JSON. A record is an object whose `node` is the name of its class; spans are left out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from dsl import ir

FORMAT_VERSION = "1.0"
_PLACES = ("span", "spans", "name_span", "other_spans", "arg_spans", "kwarg_spans", "includes")


def to_json(spec: ir.Spec) -> str:
    """Return a spec as JSON, with `format_version` as its first member and a newline at the end."""
    return json.dumps({"format_version": FORMAT_VERSION, "spec": _plain(spec)}, indent=2) + "\n"


def _plain(value: Any) -> Any:
    if attrs.has(type(value)):
        fields = [each.name for each in attrs.fields(type(value)) if each.name not in _PLACES]
        return {"node": type(value).__name__, **{name: _plain(getattr(value, name)) for name in fields}}
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
