"""Explain why an op or a variable is on its device.

An `Explanation` is a chain of links. The first is the thing itself. Each further one is what the one before
it follows (the forward op of a gradient, the variable of a read). The last one, `decider`, was placed by a
rule of the spec or by a default. `beaten` are the rules that matched somewhere along the chain and come
earlier in the spec. Every `Reason` of a rule has `rule.span`, from which its line is shown.

A thing may be named in the ways in which people see its name: `conv1/kernel`, `clone_0/conv1/Conv2D:0`, a
name inside a tower (`conv1/Conv2D`, which means that of every clone), a layer (`conv1`), a glob
(`clone_*/conv1/*`), or a part of a TensorFlow error message (`{{node clone_0/conv1/Conv2D}}`, `node x
(defined at ...)`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import TypeVar

from attrs import evolve

from compiler.mapping.explanation import Explanation, Kind, Link
from compiler.plan import Plan
from compiler.step.record import Op
from compiler.step.step import Step, Variable
from dsl import ir
from dsl.source import Span
from dsl.suggest import nearest_paths

Thing = TypeVar("Thing")

_IN_MESSAGES = (
    re.compile(r"\{\{node ([^\s{}]+)\}\}"),
    re.compile(r"[Nn]ode:? '([^\s']+)'"),
    re.compile(r"\bnode ([^\s{}']+) \(defined at"),
)
_DEVICE = re.compile(r"^/job:[^/]+/replica:\d+/task:\d+/device:\w+:\d+/")
_OUTPUT = re.compile(r":\d+$")
_COPY = re.compile(r"/_\d+$")  # what TensorFlow appends to the ends of a connection between devices


def explain_placement(step: Step, pattern: str) -> tuple[Explanation, ...]:
    """Return an explanation for each op and variable that `pattern` names, in the order of the graph."""
    found = dict.fromkeys(name for each in names_in(pattern) for name in _matching(step, each))
    return tuple(explain_op(step, name) for name in found)


def suggest_names(step: Step, pattern: str) -> tuple[str, ...]:
    """Return the names nearest to a pattern that names nothing; if it has several names, the first counts."""
    (first, *_) = names_in(pattern)
    return nearest_paths(first, (inner for op in step.ops.values() for inner in _ways(step, op)))


def names_in(text: str) -> tuple[str, ...]:
    """Return the names or globs in a text: those of a message of TensorFlow, or the text itself."""
    found = [name for each in _IN_MESSAGES for name in each.findall(text)]
    if not found:
        found = [text.strip().strip("'\"`").removeprefix("^")]
    return tuple(dict.fromkeys(_OUTPUT.sub("", _DEVICE.sub("", each)) for each in found))


def meant_by(
    step: Step, wanted: str, exactly: Callable[[str], list[Thing]], by_glob: Callable[[str], list[Thing]]
) -> list[Thing]:
    """Return what a name means: all pieces of a weight, an op, one inside the towers, a glob, or a scope."""
    pieces = (name for name, each in step.variables.items() if each.placement.info.weight == wanted)
    found = [thing for each in pieces for thing in exactly(each)]
    for name in (wanted, _COPY.sub("", wanted)):
        found = found or exactly(name)
    for glob in (wanted, f"{wanted}/*"):
        found = found or by_glob(glob)
    return found


def _matching(step: Step, wanted: str) -> list[str]:
    """Return the names of the ops that `wanted` means."""

    def by_glob(glob: str) -> list[str]:
        ops = step.ops.values()
        return [op.name for op in ops if any(fnmatchcase(way, glob) for way in _ways(step, op))]

    return meant_by(step, wanted, lambda name: [name] if name in step.ops else [], by_glob)


def _ways(step: Step, op: Op) -> Iterator[str]:
    """Yield the names that people use for an op: in the graph, and inside its tower."""
    yield op.name
    scope = step.plan.towers[op.clone].scope if op.clone is not None else ""
    if scope and op.name.startswith(scope + "/"):
        yield op.name.removeprefix(scope + "/")


def explain_op(step: Step, name: str) -> Explanation:
    """Return what placed one op or variable."""
    op, variable = step.ops[name], step.variables.get(name)
    kind: Kind = "op" if variable is None else "variable"
    found = Explanation(
        kind=kind,
        name=name,
        type=op.type,
        role=op.role,
        clone=op.clone,
        requested=op.device.ref,
        chain=tuple(_chain(step, Link(kind, name, op.device.ref, op.placed.reason), op.clone)),
    )
    if variable is None:
        return found
    placement = variable.placement
    return evolve(
        found,
        group=group_of(step, variable),
        frozen=_frozen_at(step.plan, variable),
        shard=placement.info.shard,
        fewer=placement.fewer,
    )


def group_of(step: Step, variable: Variable) -> ir.OptimizerRule | None:
    """Return the rule of `optimizer` for a variable; None if there are no groups, or it is not trained."""
    info = variable.placement.info
    if not info.trainable:
        return None
    groups = step.plan.update.groups
    return next((each for each in groups if fnmatchcase(info.weight, each.pattern)), None)


def _frozen_at(plan: Plan, variable: Variable) -> Span | None:
    """Return what freezes a variable: `freeze`, or `trainable = false` of its layer or of a block."""
    info = variable.placement.info
    if info.trainable:
        return None
    if any(fnmatchcase(info.weight, glob) for glob in plan.update.freeze or ()):
        return plan.spec.update.span_of("freeze")
    owners = [each for each in plan.model.layers if info.weight.startswith(f"{each.path}/")]
    owner = max(owners, key=lambda each: len(each.path), default=None)
    return None if owner is None else owner.frozen_at


def _chain(step: Step, link: Link, clone: int | None) -> Iterator[Link]:
    """Yield a link and those that it follows: a variable, or an op of the same tower."""
    yield link
    while (cause := link.reason.cause) is not None:
        name = link.reason.text
        if name in step.variables:
            link = Link("variable", name, link.device, cause)
            yield link
            continue
        if clone is not None:
            name = step.plan.towers[clone].op_name(name)
        elif link.name.startswith("evaluation/"):
            name = f"evaluation/{name}"
        link = Link("op", name, link.device, cause)
        yield link
