"""Placement maps, one or two side by side, as self-contained pages, which use no network and no library.

No text of a spec becomes markup.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from functools import cache
from importlib.resources import files
from posixpath import dirname, join, normpath
from typing import Any

from compiler.kinds.kind_map import AnyMap
from compiler.report.compare import Comparison
from compiler.report.page.data import Lines, Side, diff_data, page_data
from compiler.report.page.tree import Details


def html_page(placement: AnyMap, lines: Lines, details: Details | None = None) -> str:
    """Return the page."""
    return _filled("page.html", "map.js", page_data(placement, lines, details or Details()))


def diff_page(before: Side, after: Side, found: Comparison) -> str:
    """Return the page of two placements side by side."""
    return _filled("diff.html", "diff.js", diff_data(before, after, found))


def _filled(template: str, entry: str, data: dict[str, Any]) -> str:
    style = _text("look", "page.css")
    script = bundle(entry)
    parts = {
        "TITLE": html.escape(data["title"]),
        "STYLE_HASH": _hash(style),
        "SCRIPT_HASH": _hash(script),
        "STYLE": style,
        "SCRIPT": script,
        "DATA": _embedded(data),
    }
    pieces = _text("look", template).split("@")
    # What stands between two @ is the name of a part; what a part holds is not looked at again.
    return "".join(piece if at % 2 == 0 else parts[piece] for at, piece in enumerate(pieces))


def _text(folder: str, name: str) -> str:
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


# --- the scripts of a page as one: each module after those that it imports, without comments --------------


_IMPORT = re.compile(r'^import (?P<names>\{[^}]*\}) from "(?P<module>[^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:function|const) (?P<name>\w+))", re.MULTILINE)
_BLOCK = re.compile(r"^[ ]*/\*\*(?:(?!\*/).)*\*/\n", re.MULTILINE | re.DOTALL)
_CAST = re.compile(r"/\*\* @type .*?\*/ ?")
_LINE = re.compile(r"^[ ]*//.*\n", re.MULTILINE)
_EMPTY = re.compile(r"\n{2,}")


@cache
def bundle(entry: str) -> str:
    """Return the text of a script that does what the module `entry` does.

    Each module becomes a function that returns what the module exports.
    """
    numbers: dict[str, int] = {}
    parts: list[str] = []
    _add(entry, numbers, parts)
    return '"use strict";\n(() => {\n' + "".join(parts) + "})();\n"


def _add(path: str, numbers: dict[str, int], parts: list[str]) -> None:
    """Add a module behind the modules that it imports; the modules import each other in no circle."""
    text, folder = _text("script", path), dirname(path)
    for found in _IMPORT.finditer(text):
        wanted = normpath(join(folder, found["module"]))
        if wanted not in numbers:
            _add(wanted, numbers, parts)

    def take(found: re.Match[str]) -> str:
        return f"const {found['names']} = m{numbers[normpath(join(folder, found['module']))]};\n"

    exported = ", ".join(found["name"] for found in _EXPORT.finditer(text))
    numbers[path] = len(numbers)
    body = _EXPORT.sub("", _IMPORT.sub(take, text))
    for comment in (_BLOCK, _CAST, _LINE):
        body = comment.sub("", body)
    body = _EMPTY.sub("\n", body)
    parts.append(f"const m{numbers[path]} = (() => {{\n{body}return {{ {exported} }};\n}})();\n")
