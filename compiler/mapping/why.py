"""Why an op or a variable is where it is: `explain_placement(compiled, pattern)`.

An `Explanation` is a chain of links. The first is the thing itself, each further one is what the one before
follows (a gradient its forward op, a read its variable), and the last was placed by a rule of the spec or by
a default: `decider`. `beaten` are the rules that matched somewhere along the chain and came earlier in the
spec. Every `Why` of a rule has `rule.span`, from which the line is drawn.

Names may be given as people come across them: `conv1/kernel`, `clone_0/conv1/Conv2D:0`, a name inside a
tower (`conv1/Conv2D`, which means every clone's), a layer (`conv1`), a glob (`clone_*/conv1/*`), or a piece
of a TensorFlow error message (`{{node clone_0/conv1/Conv2D}}`, `node x (defined at ...)`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from attrs import frozen

from compiler.nearest import nearest_names
from compiler.reasons import Why
from dsl import ir

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph

Kind = Literal["op", "variable"]

_IN_MESSAGES = (
    re.compile(r"\{\{node ([^\s{}]+)\}\}"),
    re.compile(r"[Nn]ode:? '([^\s']+)'"),
    re.compile(r"\bnode ([^\s{}']+) \(defined at"),
)
_DEVICE = re.compile(r"^/job:[^/]+/replica:\d+/task:\d+/device:\w+:\d+/")
_OUTPUT = re.compile(r":\d+$")
_COPY = re.compile(r"/_\d+$")  # what TensorFlow appends to the ends of a connection between devices


@frozen
class Link:
    """One thing of a chain: where it is, and what put it there."""

    kind: Kind
    name: str
    device: str
    why: Why


@frozen
class Explanation:
    """Why something is where it is. `role`, `type` and `clone` are those of `placement.json`.

    `requested` is the device's name in specs, `assigned` what TensorFlow made of it (None before a step).
    """

    kind: Kind
    name: str
    type: str
    role: str
    clone: int | None
    requested: str
    assigned: str | None
    chain: tuple[Link, ...]

    @property
    def decider(self) -> Why:
        """The rule or default at the end of the chain."""
        return self.chain[-1].why

    @property
    def beaten(self) -> tuple[ir.Rule, ...]:
        """The rules that matched and lost, those that came closest to winning first."""
        return tuple(dict.fromkeys(rule for link in self.chain for rule in reversed(link.why.beaten)))


def explain_placement(compiled: CompiledGraph, pattern: str) -> tuple[Explanation, ...]:
    """Return an explanation for everything that `pattern` names, in the order of the graph; none: empty."""
    found = dict.fromkeys(name for each in names_in(pattern) for name in _matching(compiled, each))
    return tuple(_explain(compiled, name) for name in found)


def suggest_names(compiled: CompiledGraph, pattern: str) -> tuple[str, ...]:
    """Return the names nearest to a pattern that names nothing."""
    (first, *_) = names_in(pattern)
    return nearest_names(
        first, (inner for name in compiled.ledger.entries for inner in _ways(compiled, name))
    )


def names_in(text: str) -> tuple[str, ...]:
    """Return the names, or globs, that a text means: those of a message of TensorFlow, or the text itself."""
    found = [name for each in _IN_MESSAGES for name in each.findall(text)]
    if not found:
        found = [text.strip().strip("'\"`").removeprefix("^")]
    return tuple(dict.fromkeys(_OUTPUT.sub("", _DEVICE.sub("", each)) for each in found))


def _matching(compiled: CompiledGraph, wanted: str) -> list[str]:
    """Return the names of ops that `wanted` means: its own, one inside the towers, a glob, or a scope."""
    entries = compiled.ledger.entries
    for each in (wanted, _COPY.sub("", wanted)):
        if each in entries:
            return [each]
    for glob in (wanted, f"{wanted}/*"):
        found = [name for name in entries if any(fnmatchcase(way, glob) for way in _ways(compiled, name))]
        if found:
            return found
    return []


def _ways(compiled: CompiledGraph, name: str) -> Iterator[str]:
    """Yield the names under which people know an op: in the graph, and inside its tower."""
    yield name
    clone = compiled.ledger.entries[name].clone
    scope = compiled.plan.towers[clone].scope if clone is not None else ""
    if scope and name.startswith(scope + "/"):
        yield name.removeprefix(scope + "/")


def _explain(compiled: CompiledGraph, name: str) -> Explanation:
    entry = compiled.ledger.entries[name]
    kind: Kind = "variable" if name in compiled.variables else "op"
    return Explanation(
        kind=kind,
        name=name,
        type=compiled.graph.get_operation_by_name(name).type,
        role=entry.role,
        clone=entry.clone,
        requested=entry.device.ref,
        assigned=compiled.assigned_to(name),
        chain=tuple(_chain(compiled, Link(kind, name, entry.device.ref, entry.placed.why), entry.clone)),
    )


def _chain(compiled: CompiledGraph, link: Link, clone: int | None) -> Iterator[Link]:
    """Yield a link and those that it follows."""
    yield link
    while link.why.cause is not None:
        link = _followed(compiled, link, clone)
        yield link


def _followed(compiled: CompiledGraph, link: Link, clone: int | None) -> Link:
    """Return what `link` follows: a variable, or an op of the same tower."""
    name, cause = link.why.text, link.why.cause
    assert cause is not None
    if name in compiled.variables:
        return Link("variable", name, link.device, cause)
    if clone is not None:
        name = compiled.plan.towers[clone].op_name(name)
    elif link.name.startswith("evaluation/"):
        name = f"evaluation/{name}"
    return Link("op", name, link.device, cause)
