"""The house is in order: what is packaged is what is there."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("dsl", "grammar", "compiler", "tfdeploy")


def test_every_package_is_listed() -> None:
    """The explicit list of packages names each folder with modules, and no other."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    there = {
        str(file.parent.relative_to(ROOT)).replace("/", ".")
        for layer in LAYERS
        for file in (ROOT / layer).rglob("*.py")
    }
    assert sorted(listed) == sorted(there)


def test_no_file_and_no_function_has_grown_out_of_sight() -> None:
    """Source files stay within 400 lines and functions within 60."""
    long = []
    for layer in LAYERS:
        for file in (ROOT / layer).rglob("*.py"):
            text = file.read_text()
            if text.count("\n") > 400:
                long.append(str(file))
            functions = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.FunctionDef)]
            long += [f"{file}:{each.lineno} {each.name}" for each in functions if _lines(each) > 60]
    assert long == []


def _lines(function: ast.FunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1
