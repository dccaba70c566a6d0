"""Mutants: a source file with one small fault in it, of a kind that people make."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from pathlib import Path

from attrs import frozen

UNNOTICED = ("repr", "strict")  # arguments for people who debug, and for what is never so
LARGEST = 1_000  # larger numbers are bounds and seeds, in which one more changes nothing
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}


@frozen
class Mutant:
    """A fault in a file.

    Attributes:
        path: The path of the file, relative to the root of the project.
        line: The line of the fault.
        was: The statement or expression as it was.
        now: The statement or expression with the fault.
        text: The text of the whole file with the fault.
    """

    path: str
    line: int
    was: str
    now: str
    text: str


def mutants_of(path: Path, root: Path) -> Sequence[Callable[[], Mutant | None]]:
    """Return what makes each mutant of a file.

    A tree of five hundred files has fifty thousand mutants, of which few are wanted, and most of the time
    goes into the text of a mutant.

    Args:
        path: The file.
        root: The folder that the path in a mutant is relative to.

    Returns:
        A function for each mutant, in the order in which `ast.walk` comes upon their nodes. It returns None
        if the change cannot be written, or changes nothing.
    """
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    skipped = _annotations_and_docstrings(tree)

    def make(node: ast.expr | ast.stmt, changed: ast.AST) -> Mutant | None:
        was, now = ast.unparse(node), ast.unparse(changed)
        text = _replaced(source, node, now)
        if was == now or text is None:
            return None
        return Mutant(str(path.relative_to(root)), node.lineno, was, now, text)

    return [
        partial(make, node, changed)
        for node in ast.walk(tree)
        if id(node) not in skipped and isinstance(node, ast.expr | ast.stmt)
        for changed in _changes(node)
    ]


def _changes(node: ast.AST) -> Iterator[ast.AST]:  # noqa: C901  # a table of cases
    """Give what a node could be by mistake."""
    changed = copy(node)
    match changed:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            changed.ops = [COMPARISONS[type(operator)]()]
            yield changed
        case ast.BoolOp():
            changed.op = ast.Or() if isinstance(changed.op, ast.And) else ast.And()
            yield changed
        case ast.UnaryOp(op=ast.Not()):
            yield changed.operand
        case ast.BinOp(op=operator, left=left) if type(operator) in ARITHMETIC and not _is_text(left):
            changed.op = ARITHMETIC[type(operator)]()
            yield changed
        case ast.Constant(value=bool()):
            changed.value = not changed.value
            yield changed
        case ast.Constant(value=int()) if changed.value < LARGEST:
            changed.value += 1
            yield changed
        case ast.IfExp():
            changed.body, changed.orelse = changed.orelse, changed.body
            yield changed
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            changed.value = ast.Constant(None)
            yield changed
        case ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.Call(keywords=[*_, last]) if last.arg not in UNNOTICED:
            changed.keywords = changed.keywords[:-1]
            yield changed
        case ast.If(test=condition) if not isinstance(condition, ast.Compare | ast.BoolOp | ast.UnaryOp):
            test = ast.UnaryOp(ast.Not(), changed.test)
            yield ast.If(test, changed.body, changed.orelse)
        case _:
            return


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _annotations_and_docstrings(tree: ast.AST) -> set[int]:
    """Return the nodes, by `id`, in which a fault would change nothing that runs."""
    skipped: set[int] = set()

    def skip(node: ast.AST | None) -> None:
        if node is not None:
            skipped.update(id(each) for each in ast.walk(node))

    for node in ast.walk(tree):
        match node:
            case ast.arg() | ast.AnnAssign():
                skip(node.annotation)
            case ast.FunctionDef():
                skip(node.returns)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Assert() | ast.JoinedStr():
                skip(node)
            case ast.Expr(value=ast.Constant()):
                skip(node)
            case ast.keyword(arg=name) if name in UNNOTICED:
                skip(node)
            case _:
                pass
    return skipped


def _replaced(source: str, node: ast.AST, text: str) -> str | None:
    """Return the source with `text` in the place of `node`; None if that cannot be parsed."""
    if isinstance(node, ast.If):  # the body stays as it is written
        node, text = node.test, f"not ({ast.unparse(node.test)})"
    assert isinstance(node, ast.expr | ast.stmt)
    lines = source.encode().splitlines(keepends=True)
    begin, end = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    head = lines[begin][: node.col_offset]
    tail = lines[end][node.end_col_offset :]
    opened, closed = ("(", ")") if isinstance(node, ast.expr) else ("", "")
    middle = f"{opened}{text}{closed}".encode()
    found = b"".join([*lines[:begin], head + middle + tail, *lines[end + 1 :]]).decode()
    try:
        ast.parse(found)
    except SyntaxError:
        return None
    return found
