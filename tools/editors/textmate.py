"""The TextMate grammar, which VS Code, GitHub and many other programs read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from dsl.schema import vocabulary
from dsl.values import UNITS

NAME = r"[A-Za-z_]\w*"


def grammar() -> str:
    """Return the text of `tfdeploy.tmLanguage.json`."""
    made = {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "tfdeploy",
        "scopeName": "source.tfdeploy",
        "fileTypes": ["tfdeploy"],
        "patterns": [{"include": f"#{name}"} for name in _repository()],
        "repository": _repository(),
    }
    return json.dumps(made, indent=2) + "\n"


def _repository() -> dict[str, Any]:
    blocks = _any(vocabulary.blocks())
    units = _any(sorted((unit for unit in UNITS if unit != "%"), key=lambda unit: -len(unit)))
    return {
        "comment": _match(r"#.*$", "comment.line.number-sign"),
        "string": {
            "name": "string.quoted.double.tfdeploy",
            "begin": '"',
            "end": '"|$',
            "patterns": [_match(r"\\.", "constant.character.escape")],
        },
        "block": {
            "match": rf'(?<![\w.])({blocks})\s*("[^"]*")?\s*(=)?\s*(?=\{{)',
            "captures": {
                "1": {"name": "storage.type.block.tfdeploy"},
                "2": {"name": "entity.name.type.tfdeploy"},
                "3": {"name": "keyword.operator.tfdeploy"},
            },
        },
        "literal": _match(rf"\b({_any(vocabulary.LITERALS)})\b", "constant.language"),
        "attribute": _match(
            rf"^\s*({_any(vocabulary.attributes())})(?=\s*=(?!=))", "support.type.property-name"
        ),
        "number": _match(
            rf"(?<!\w)\d[\d_]*(\.\d[\d_]*)?([eE][-+]?\d[\d_]*)?([ \t]*(%|({units})(?!\w)))?",
            "constant.numeric",
        ),
        "arrow": _match("->", "keyword.operator.arrow"),
        "operator": _match(r"<=|>=|==|\.\.\.|\.\.|[-+*/=<>]", "keyword.operator"),
        "builtin": _match(rf"\b({_any(vocabulary.functions())})(?=\()", "support.function"),
        "function": _match(rf"{NAME}(?=\()", "entity.name.function"),
        "assigned": _match(rf"{NAME}(?=\s*=(?!=))", "variable.other.assignment"),
        "constant": _match(rf"\b({_any(vocabulary.constants())})\b(?!\[)", "support.constant"),
        "name": _match(NAME, "variable.other"),
    }


def _any(words: Iterable[str]) -> str:
    return "|".join(words)


def _match(pattern: str, scope: str) -> dict[str, str]:
    return {"match": pattern, "name": f"{scope}.tfdeploy"}
