"""The scripts of a page as one: each module after those that it imports, without comments."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

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
    text = (files("compiler.report.page") / "script" / path).read_text(encoding="utf-8")
    folder = path.rpartition("/")[0]
    for found in _IMPORT.finditer(text):
        wanted = _join(folder, found["module"])
        if wanted not in numbers:
            _add(wanted, numbers, parts)

    def take(found: re.Match[str]) -> str:
        return f"const {found['names']} = m{numbers[_join(folder, found['module'])]};\n"

    exported = ", ".join(found["name"] for found in _EXPORT.finditer(text))
    numbers[path] = len(numbers)
    body = _EXPORT.sub("", _IMPORT.sub(take, text))
    for comment in (_BLOCK, _CAST, _LINE):
        body = comment.sub("", body)
    body = _EMPTY.sub("\n", body)
    parts.append(f"const m{numbers[path]} = (() => {{\n{body}return {{ {exported} }};\n}})();\n")


def _join(folder: str, module: str) -> str:
    """Return the path of a module that is named from inside a folder."""
    parts = folder.split("/") if folder else []
    for part in module.split("/"):
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
