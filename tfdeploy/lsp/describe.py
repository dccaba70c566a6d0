"""Descriptions of blocks, attributes and functions in Markdown, from the schema and the files of Keras."""

from __future__ import annotations

import ast
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dsl import ir
from dsl.schema import Argument, Attribute, Block, Function, Type, signatures
from dsl.values import units_of
from grammar import unparse


def code(text: str) -> str:
    """Return text as a fenced piece of a spec."""
    return f"```tfdeploy\n{text}\n```"


def block(known: Block) -> str:
    """Describe a kind of block."""
    label = ' "name"' if known.label == "required" else ""
    lines = [code(f"{known.name}{label} {{ ... }}"), _sentence(known.doc)]
    if known.attributes:
        lines.append("Attributes: " + ", ".join(f"`{each}`" for each in known.names) + ".")
    if known.inner:
        lines.append("Inner blocks: " + ", ".join(f"`{each}`" for each in known.inner) + ".")
    return "\n\n".join(lines)


def attribute(row: Attribute, known: Block | None) -> str:
    """Describe an attribute: what it takes, its default and its meaning."""
    default = None if known is None else known.default(row.name)
    takes = _takes(row.type, written(default, row.type) if default is not None else None)
    return "\n\n".join([code(f"{row.name} = ..."), _sentence(row.doc), takes])


def argument(row: Argument, function: str) -> str:
    """Describe an argument of a function."""
    parts = [code(f"{function}({parameter(row)})")]
    if row.doc:
        parts.append(_sentence(row.doc))
    parts.append(_takes(row.type, None))
    return "\n\n".join(parts)


def function(known: Function, category: str = "") -> str:
    """Describe a function: its signature, what it does, and those of its arguments that are explained."""
    said = known.doc
    if category in signatures.CATEGORIES or category == "operation":
        said = said or first_paragraph(category, known.name) or ""
    parts = [code(signature(known))]
    if said:
        parts.append(_sentence(said))
    explained = [f"- `{each.name}`: {each.doc}" for each in known.arguments if each.doc]
    if explained:
        parts.append("\n".join(explained))
    return "\n\n".join(parts)


def signature(known: Function) -> str:
    """Return a function with its parameters and their defaults."""
    return f"{known.name}({', '.join(parameters(known))})"


def parameters(known: Function) -> tuple[str, ...]:
    """Return the parameters of a function as they are shown in its signature."""
    named = [parameter(each) for each in known.arguments]
    return (*named, *(("...",) if known.repeating or known.rest is not None else ()))


def parameter(row: Argument) -> str:
    """Return a parameter, with its default if it may be left out."""
    return row.name if row.required else f"{row.name} = {written(row.default, row.type)}"


def written(value: Any, kind: Type | None = None) -> str:
    """Return a default as the language writes it."""
    if isinstance(value, ir.Every):
        return (
            f"{value.steps}" if value.steps is not None else unparse.quantity(value.seconds or 0.0, "seconds")
        )
    return unparse.value(value, kind)


def _takes(kind: Type, default: str | None) -> str:
    said = f"Takes {kind.described()}"
    units = _units(kind)
    if kind.kind == "word" and len(kind.words) > 1:
        said = "One of " + ", ".join(f"`{each}`" for each in kind.words)
        said += " or `none`" if kind.optional else ""
    if units:
        said += f"; units: {', '.join(f'`{each}`' for each in units)}"
    return f"{said}. Default: `{default}`." if default is not None else f"{said}."


def _units(kind: Type) -> tuple[str, ...]:
    if kind.dimension is not None:
        return units_of(kind.dimension)
    return next((units for option in kind.options if (units := _units(option))), ())


def _sentence(text: str) -> str:
    """Return a description of a table as a sentence."""
    first = text[:1].upper() + text[1:]
    return first if first.endswith((".", "!", "?")) else f"{first}."


_MODULES = {"loss": "losses", "schedule": "optimizers/schedules", "operation": "ops"}
"""The modules of Keras with the objects of a category, if they are not called by its plural."""


@lru_cache(maxsize=500)
def first_paragraph(category: str, name: str) -> str | None:
    """Return the first paragraph of the documentation of a Keras object, or None if it cannot be found."""
    module, inner = _places(category).get(name, ("", ""))
    for node in _statements(module.replace(".", "/")):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == inner:
            text = ast.get_docstring(node)
            return None if text is None else " ".join(text.split("\n\n", 1)[0].split())
    return None


@cache
def _places(category: str) -> dict[str, tuple[str, str]]:
    """Return the module of each object of a category, and its name there."""
    statements = _statements(f"keras/{_MODULES.get(category, f'{category}s')}/__init__")
    imports = [node for node in statements if isinstance(node, ast.ImportFrom)]
    return {
        each.asname or each.name: (node.module or "", each.name) for node in imports for each in node.names
    }


def _statements(module: str) -> list[ast.stmt]:
    """Return the statements of a module of Keras, which is not imported; none if it cannot be read."""
    found = find_spec("keras")  # which does not import a package at the top level
    if found is None or found.origin is None:
        return []
    try:
        return ast.parse((Path(found.origin).parents[1] / f"{module}.py").read_text(encoding="utf-8")).body
    except (OSError, SyntaxError, UnicodeDecodeError):
        return []
