"""Placement maps, one or two side by side, as self-contained pages, which use no network and no library.

No text of a spec becomes markup.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any

from compiler.kinds.records.kind_map import AnyMap
from compiler.report.comparison.compare import Comparison
from compiler.report.page.bundle import bundle
from compiler.report.page.data.diff_data import Side, diff_data
from compiler.report.page.data.placement_data import page_data
from compiler.report.page.data.spec_lines import Lines
from compiler.report.page.details import Details


def html_page(placement: AnyMap, lines: Lines, details: Details | None = None) -> str:
    """Return the page.

    Args:
        placement: The map.
        lines: The lines of the spec that are shown.
        details: What is known beyond the map; the page shows the rest without it.
    """
    return _filled("page.html", "map.js", page_data(placement, lines, details or Details()))


def diff_page(before: Side, after: Side, found: Comparison) -> str:
    """Return the page of two placements side by side."""
    return _filled("diff.html", "diff.js", diff_data(before, after, found))


def _filled(template: str, entry: str, data: dict[str, Any]) -> str:
    style = _look("page.css")
    script = bundle(entry)
    parts = {
        "TITLE": html.escape(data["title"]),
        "STYLE_HASH": _hash(style),
        "SCRIPT_HASH": _hash(script),
        "STYLE": style,
        "SCRIPT": script,
        "DATA": _embedded(data),
    }
    pieces = _look(template).split("@")
    # What stands between two @ is the name of a part; what a part holds is not looked at again.
    return "".join(piece if at % 2 == 0 else parts[piece] for at, piece in enumerate(pieces))


def _look(name: str) -> str:
    return (files("compiler.report.page") / "look" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the source expression of an inline script or style for a content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embedded(data: Any) -> str:
    """Return JSON for a script element, without characters that could end it or start a comment."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
