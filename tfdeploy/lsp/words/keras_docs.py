"""The first paragraph of what Keras says of its objects, read from its files without importing it."""

from __future__ import annotations

import ast
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

_MODULES = {
    "layer": "layers",
    "application": "applications",
    "loss": "losses",
    "metric": "metrics",
    "optimizer": "optimizers",
    "schedule": "optimizers/schedules",
    "initializer": "initializers",
    "regularizer": "regularizers",
    "constraint": "constraints",
    "activation": "activations",
    "operation": "ops",
}


@lru_cache(maxsize=500)
def first_paragraph(category: str, name: str) -> str | None:
    """Return the first paragraph of the documentation of a Keras object, or None if it cannot be found.

    Args:
        category: A category of `dsl.schema.signatures`, such as `layer`.
        name: The name in Keras.
    """
    place = _places(category).get(name)
    folder = _folder()
    if place is None or folder is None:
        return None
    module, inner = place
    path = folder.parent / (module.replace(".", "/") + ".py")
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == inner:
            text = ast.get_docstring(node)
            return None if text is None else " ".join(text.split("\n\n", 1)[0].split())
    return None


@cache
def _folder() -> Path | None:
    """Return the folder of the installed Keras."""
    found = find_spec("keras")  # which does not import a package at the top level
    return None if found is None or found.origin is None else Path(found.origin).parent


@cache
def _places(category: str) -> dict[str, tuple[str, str]]:
    """Return the module of each object of a category, and its name there."""
    folder = _folder()
    if folder is None or category not in _MODULES:
        return {}
    try:
        tree = ast.parse((folder / _MODULES[category] / "__init__.py").read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return {}
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {
        each.asname or each.name: (node.module or "", each.name) for node in imports for each in node.names
    }
