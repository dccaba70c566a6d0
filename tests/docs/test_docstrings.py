"""Public functions explain their arguments, as CONTRIBUTING.md asks for."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[2]
PUBLIC = (
    "compiler/graph/build.py",
    "compiler/graph/finished.py",
    "compiler/graph/fragments.py",
    "compiler/graph/ledger.py",
    "compiler/graph/optimizers/base.py",
    "compiler/graph/session_options.py",
    "compiler/pipeline.py",
    "compiler/placement/rules.py",
    "compiler/search/search.py",
    "compiler/shards.py",
    "compiler/step/record.py",
    "compiler/step/values.py",
    "compiler/step/step.py",
    "compiler/step/sums/__init__.py",
    "compiler/step/sums/base.py",
    "compiler/step/types.py",
    "compiler/step/writer.py",
    "compiler/time/forecast.py",
    "compiler/topology.py",
    "dsl/diagnostics.py",
    "grammar/__init__.py",
    "tfdeploy/__init__.py",
    "tfdeploy/api.py",
    "tfdeploy/data/sources/base.py",
    "tfdeploy/data/transforms/changes.py",
    "tfdeploy/looking.py",
    "tfdeploy/onramp/convert.py",
    "tfdeploy/suggesting/suggester.py",
)
"""What others build on: the Python interface, records, the entry of each stage, and what a new aggregation,
optimizer, source or transform is made of. Elsewhere a docstring says what names and types do not."""

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> dict[str, ast.Module]:
    """Return the trees of all public modules, by their paths."""
    return {each: ast.parse((ROOT / each).read_text(encoding="utf-8")) for each in PUBLIC}


def arguments(function: Function) -> list[str]:
    """Return the names of a function's arguments without `self` and `cls`."""
    given = function.args
    named = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return [each for each in named if each not in {"self", "cls"}]


def is_for_click(function: Function) -> bool:
    """Whether click calls a function: a command, whose options have help, or a callback, which gets `ctx`."""
    decorators = {ast.unparse(each).partition("(")[0] for each in function.decorator_list}
    return "click.command" in decorators or arguments(function)[0] == "ctx"


def is_signature(function: Function) -> bool:
    """Whether a function is but a signature of the one that follows, which has the docstring."""
    return "overload" in map(ast.unparse, function.decorator_list)


def public(tree: ast.Module | ast.ClassDef) -> Iterator[tuple[ast.ClassDef | None, Function]]:
    """Yield the public functions of a module or class with two arguments or more, each with its class."""
    for each in tree.body:
        if isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
            yield from public(each)
        elif isinstance(each, Function) and not each.name.startswith("_") and len(arguments(each)) > 1:
            if is_signature(each):
                continue
            yield (tree if isinstance(tree, ast.ClassDef) else None), each


def explains(function: Function) -> bool:
    """Whether the docstring of a function has a section for its arguments with an entry for each."""
    _, _, section = (ast.get_docstring(function) or "").partition("\nArgs:\n")
    entries = re.findall(r"^ {4}\*{0,2}(\w+):", section.partition("\n\n")[0], re.MULTILINE)
    return bool(entries) and set(arguments(function)) <= set(entries)


def unexplained(trees: dict[str, ast.Module]) -> list[str]:
    """Return the public functions whose arguments are explained nowhere.

    The arguments of a method may be explained by the method of a base class. Methods of
    click's classes are explained by click.
    """
    nodes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]

    def is_inherited(node: ast.ClassDef, name: str) -> bool:
        for written in map(ast.unparse, node.bases):
            if written.startswith("click."):
                return True
            base = written.partition("[")[0].rpartition(".")[2]  # without its module and type arguments
            for found in (each for each in nodes if each.name == base):
                own = [each for each in found.body if isinstance(each, Function) and each.name == name]
                if any(map(explains, own)) or is_inherited(found, name):
                    return True
        return False

    return [
        f"{path}: {function.name}"
        for path, tree in trees.items()
        for node, function in public(tree)
        if not explains(function)
        and not is_for_click(function)
        and not (node is not None and is_inherited(node, function.name))
    ]


def test_arguments_are_explained() -> None:
    """Every public function with two arguments or more says what they are, or its base class does."""
    assert unexplained(modules()) == []


BAD = """
def load(path, text): pass
def _load(path, text): pass
def save(path): pass
@click.command()
def command(common, spec): pass
def callback(ctx, param, value): pass

class Source:
    def fault(self, index, reason):
        '''Return the fault.

        Args:
            index: The number.
            reason: The message.
        '''
    async def read(self, index, *, whole): pass

    def write(self, index, whole):
        '''Write one.

        Args:
            index: The number.
        '''

class Files(Source): pass

class Table(files.Files[int]):
    def fault(self, index, reason): pass
    def read(self, index, *, whole): pass

class Group(click.Group):
    def get_command(self, ctx, name): pass
"""


def test_what_is_found() -> None:
    """Functions and methods are found if an argument of several is explained neither here nor in a base."""
    assert unexplained({"bad": ast.parse(BAD)}) == ["bad: load", "bad: read", "bad: write", "bad: read"]
