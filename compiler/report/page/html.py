"""The placement map as one self-contained page, which uses no network and no library.

No text of a spec becomes markup.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any

from compiler.mapping.records import PlacementMap
from compiler.report.page.data.placement_data import page_data
from compiler.report.page.data.spec_lines import Lines
from compiler.time.forecast import StepForecast

SCRIPTS = ("model.js", "table.js", "strip.js", "detail.js", "timeline.js", "main.js")
"""The scripts, each after those that it uses."""


def html_page(placement: PlacementMap, lines: Lines, forecast: StepForecast | None = None) -> str:
    """Return the page.

    Args:
        placement: The map.
        lines: The lines of the spec that are shown.
        forecast: The forecast of the step, whose timeline is shown if there is one.
    """
    data = page_data(placement, lines, forecast)
    style = _asset("look", "page.css")
    script = '"use strict";\n(() => {\n' + "\n".join(_asset("script", each) for each in SCRIPTS) + "})();\n"
    parts = {
        "TITLE": html.escape(data["title"]),
        "STYLE_HASH": _hash(style),
        "SCRIPT_HASH": _hash(script),
        "STYLE": style,
        "SCRIPT": script,
        "DATA": _embedded(data),
    }
    page = _asset("look", "page.html")
    pieces = page.split("@")
    # What stands between two @ is the name of a part; what a part holds is not looked at again.
    return "".join(piece if at % 2 == 0 else parts[piece] for at, piece in enumerate(pieces))


def _asset(folder: str, name: str) -> str:
    return (files("compiler.report.page") / folder / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the source expression of an inline script or style for a content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embedded(data: Any) -> str:
    """Return JSON for a script element, without characters that could end it or start a comment."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
