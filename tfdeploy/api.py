"""The Python face of the tool."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsl.ir import Spec


def load(
    path: str | os.PathLike[str], overrides: Mapping[str, Any] | None = None, *, allow_python: bool = False
) -> Spec:
    """Read the spec at `path`, with the attributes named in `overrides` replaced, as `--set` does.

    Raises SpecError, whose `diagnostics` say what is wrong and where.
    """
    from grammar import load as read

    pairs = tuple((name, _text(value)) for name, value in (overrides or {}).items())
    return read(os.fspath(path), pairs, allow_python=allow_python)


def _text(value: Any) -> str:
    """Return `value` as the language writes it; a string is taken as it would be after `--set PATH=`."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(_quoted(item) if isinstance(item, str) else _text(item) for item in value)}]"
    return repr(value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
