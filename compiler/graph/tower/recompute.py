"""Recomputation: parts of a tower's forward pass are computed again in its backward pass, to save memory.

A segment is a set of forward ops. What others use of its results is kept, and so is what draws from a state,
reads a table or runs functions, and what is small beside what it is made of, such as moments. All else that
gradients take of it is made a second time by copies of its ops (Chen et al., 2016, arXiv 1604.06174). Random
numbers come from seeds that are tensors, so that copies draw them again as they were. New statistics need no
gradient, and have no copies.

TensorFlow runs whatever is ready. So the copies wait for the gradients with which the backward pass enters
the segment, and for the gradients that the segment behind it has used its own copies for. They stand directly
before the first op that uses them, so that no op waits for one that comes later.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import tensorflow as tf
from attrs import evolve, field, frozen

from compiler.figures import gathered, reached
from compiler.graph.adapters.tensorflow_private import op_definition
from compiler.graph.nodes import count_inputs
from compiler.graph.tower.template import PORTS, Template, base_of
from compiler.search.segments import Stage
from compiler.step.record import HANDLES, Tensor
from compiler.time.work import PASSED_ON, flops

SCOPE = "recompute"
_PART = re.compile(r"^gradients/(part_\d+/)?")
_LOOKUP = "GatherV2"  # runs beside its table, which may be on another device
SAME = PASSED_ON & {"ExpandDims", "Identity", "Reshape", "Squeeze", "StopGradient"}
SMALL = 16
"""Results of an op are kept if they are at most this part of what it takes."""


def scopes_of(name: str) -> list[str]:
    """Return the scopes that an op is in, the outermost first."""
    return [name[:at] for at, each in enumerate(name) if each == "/"]


def segments_of_scopes(template: Template, glob: str) -> list[list[str]]:
    """Return the forward ops in each scope that a glob matches."""
    found = gathered(
        (next((each for each in scopes_of(name) if fnmatchcase(each, glob)), None), name)
        for name in Forward(template).ops
    )
    return [names for scope, names in found.items() if scope is not None]


@frozen
class Forward:
    """The forward pass of a template."""

    template: Template

    @cached_property
    def ops(self) -> Mapping[str, Any]:
        """The nodes of its ops by name, in an order in which they could run; ports and constants are none."""
        roles = self.template.roles
        return {
            name: node
            for name, node in self.template.fragment.node.items()
            if roles[name] == "forward" and node.op != "Const" and not name.startswith(f"{PORTS}/")
        }

    @cached_property
    def users(self) -> Mapping[str, list[str]]:
        """The ops that take results of each op."""
        nodes = self.template.fragment.node
        return gathered((each, name) for name, node in nodes.items() for each in inputs_of(node))

    @cached_property
    def gradients(self) -> frozenset[str]:
        """The ops of the backward pass.

        A loop of the forward pass takes in what its gradient wants to be filled, which is not among them.
        """
        nodes, roles = self.template.fragment.node, self.template.roles
        there = (each for each in nodes if roles[each] != "gradient")
        before = reached(there, lambda own: inputs_of(nodes[own]))
        return frozenset(nodes).difference(before)

    @cached_property
    def results(self) -> frozenset[str]:
        """The ops whose results the rest of the step uses."""
        return frozenset(map(base_of, self.template.results))

    def taken(self, name: str) -> list[Tensor]:
        """Return the tensors that an op takes."""
        found = []
        for each in _tensors(self.template.fragment.node[name]):
            base, _, at = each.partition(":")
            found.append(self.made(base)[int(at or 0)])
        return found

    def made(self, name: str) -> list[Tensor]:
        """Return the tensors that an op makes."""
        return [Tensor(name, *each, at) for at, each in enumerate(self.template.fragment.made[name])]

    def operations(self, name: str) -> int:
        """Return the floating point operations of an op."""
        node = self.template.fragment.node[name]
        shapes = ([each.known_shape for each in tensors] for tensors in (self.taken(name), self.made(name)))
        turned = any(node.attr[each].b for each in ("transpose_a", "adj_x") if each in node.attr)
        return flops(node.op, *shapes, transposed=turned)

    @cached_property
    def repeatable(self) -> frozenset[str]:
        """The ops that make the same again, where they run, and are worth it."""
        return frozenset(filter(self._can_repeat, self.ops))

    def _can_repeat(self, name: str) -> bool:
        node, made = self.ops[name], self.made(name)
        definition = op_definition(node.op)
        if definition is None or definition.is_stateful or any(each.dtype in HANDLES for each in made):
            return False
        if any(each.HasField("func") for each in node.attr.values()):
            return False
        sources = [self.template.fragment.node[each].op for each in inputs_of(node)]
        if node.op == _LOOKUP or (node.op == "Cast" and _LOOKUP in sources):
            return False
        return node.op in PASSED_ON or bytes_of(made) * SMALL > bytes_of(self.taken(name))

    def is_small(self, tensor: str) -> bool:
        """Whether a tensor is one of several results, and small beside what its op takes, as moments are.

        What takes it takes that of the op itself, and never that of a copy.
        """
        name, _, at = tensor.partition(":")
        made, own = self.made(name), int(at or 0)
        return len(made) > 1 and bytes_of(made[own : own + 1]) * SMALL < bytes_of(self.taken(name))

    def taken_of(self, node: Any, ops: Collection[str]) -> list[str]:
        """Return the ops, of some, of which a node takes more than small results."""
        found = ((base_of(each), each) for each in _tensors(node))
        return [name for name, each in found if name in ops and not self.is_small(each)]

    def kept(self, segment: Collection[str]) -> set[str]:
        """Return the ops of a segment whose results are kept, with those whose memory they pass on."""
        found: set[str] = set()
        for each in segment:
            name = each
            while name in segment and name not in found and (name != each or self._stays(name, segment)):
                found.add(name)
                name = base_of(self.ops[name].input[0]) if self.ops[name].op in SAME else name
        return found

    def _stays(self, name: str, segment: Collection[str]) -> bool:
        if name in self.results or name not in self.repeatable:
            return True
        elsewhere = (each for each in self.users.get(name, ()) if each not in segment)
        return not self.gradients.issuperset(elsewhere)


def recomputed(template: Template, segments: Iterable[Collection[str]]) -> Template:
    """Return a template that makes again in its backward pass what gradients take of segments.

    Args:
        segments: The forward ops of each segment; no op is in two.
    """
    blocks = list(_blocks(template, segments))
    if not blocks:
        return template
    before: dict[str, _Block] = {each.first: each for each in blocks}
    forward = Forward(template)
    instead: dict[str, dict[str, str]] = {}
    for each in blocks:
        for user in each.users:
            instead.setdefault(user, {}).update(each.copies)
    graph_def = tf.compat.v1.GraphDef(
        library=template.graph_def.library, versions=template.graph_def.versions
    )
    made, roles, follows = dict(template.fragment.made), dict(template.roles), dict(template.follows)
    draws = _draws(template)
    waits: list[str] = []  # of what uses the copies of the block before
    for node in template.graph_def.node:
        block = before.get(node.name)
        if block is not None:
            position = block.order[block.first]
            begin = [*block.triggers, *(each for each in waits if block.order[each] < position)]
            graph_def.node.add(
                name=block.begin, op="NoOp", input=[f"^{each}" for each in dict.fromkeys(begin)]
            )
            made[block.begin], roles[block.begin] = [], "gradient"
            follows[block.begin] = next(iter(block.copies))
            last = block.begin
            for own, copy in block.copies.items():
                graph_def.node.append(_copied(forward, own, block.copies, last))
                made[copy], roles[copy], follows[copy], last = made[own], "gradient", own, copy
            waits = list(block.users)
        graph_def.node.append(node)
        added = graph_def.node[-1]
        if node.name in draws:
            added.input.append(f"^{draws[node.name]}")
        if node.name in instead:
            added.input[: count_inputs(node)] = _replaced(forward, node, instead[node.name])
    fragment = evolve(template.fragment, nodes=graph_def, made=made)
    return evolve(template, fragment=fragment, roles=roles, follows=follows)


def _draws(template: Template) -> dict[str, str]:
    """Return the op behind which each op of the forward pass draws, which would else draw when a step begins.

    The random numbers of all layers would be there at once.
    """
    examples, last, found = {*template.inputs.values()}, None, dict[str, str]()
    for name, node in Forward(template).ops.items():
        if not examples.isdisjoint(inputs_of(node)):
            examples.add(name)
            last = name
        elif node.op.startswith("StatelessRandom") and last is not None:
            found[name] = last
    return found


@frozen
class _Block:
    """The copies of a segment for the gradients of a part of the loss."""

    begin: str  # the name of the op for which the copies wait
    # The names of the copies by those of their ops, in the order in which these run.
    copies: Mapping[str, str]
    users: Sequence[str]  # the gradient ops that take results of the copies
    order: Mapping[str, int]  # the place of each op in the order of the template
    triggers: Sequence[str]

    @property
    def first(self) -> str:
        """The first op that takes a result of the copies."""
        return self.users[0]


def _blocks(template: Template, segments: Iterable[Collection[str]]) -> Iterator[_Block]:
    """Yield the copies of segments; no copies if gradients take nothing that is not kept."""
    forward, nodes = Forward(template), template.fragment.node
    order = {name: at for at, name in enumerate(nodes)}
    gradients = [each for each in nodes if each in forward.gradients and nodes[each].op != "Const"]
    for number, segment in enumerate(segments):
        repeated = {*segment} - forward.kept(segment)
        parts: dict[str, set[str]] = {}
        for user in {user for name in repeated for user in forward.users.get(name, ())}:
            if user in forward.gradients and forward.taken_of(nodes[user], repeated):
                match = _PART.match(user)
                parts.setdefault(match.group(1) or "" if match is not None else "", set()).add(user)
        for part, using in parts.items():
            users = sorted(using, key=order.__getitem__)
            before = [each for each in gradients if order[each] < order[users[0]]]
            waited = {base_of(each) for user in users for each in nodes[user].input}
            triggers = [each for each in before if each in waited] or before[-1:]
            if not triggers:  # nothing says when the copies would be due
                continue
            taken = (each for user in users for each in forward.taken_of(nodes[user], repeated))
            needed = reached(taken, lambda own: forward.taken_of(nodes[own], repeated))  # noqa: B023
            copies = {own: f"{SCOPE}/{part}{own}" for own in sorted(needed, key=order.__getitem__)}
            yield _Block(f"{SCOPE}/{part}begin_{number}", copies, users, order, triggers)


def _copied(forward: Forward, own: str, copies: Mapping[str, str], before: str) -> Any:
    """Return the copy of an op, which takes what copies make; if it takes none of that, it waits."""
    node, copy = forward.ops[own], tf.compat.v1.NodeDef()
    copy.CopyFrom(node)
    copy.name = copies[own]
    del copy.input[:]
    copy.input.extend(_replaced(forward, node, copies))
    if not forward.taken_of(node, copies):
        copy.input.append(f"^{before}")
    return copy


def _replaced(forward: Forward, node: Any, copies: Mapping[str, str]) -> list[str]:
    """Return the tensors that a node takes, of copies where there are some."""
    again, found = {*forward.taken_of(node, copies)}, []
    for each in _tensors(node):
        base, colon, output = each.partition(":")
        name = copies[base] if base in again and not forward.is_small(each) else base
        found.append(f"{name}{colon}{output}")
    return found


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """Return the bytes of tensors; those of which they are not known count as nothing."""
    return sum(each.bytes or 0 for each in tensors)


def inputs_of(node: Any) -> list[str]:
    """Return the ops whose results a node takes."""
    return [base_of(each) for each in _tensors(node)]


def _tensors(node: Any) -> Sequence[str]:
    return node.input[: count_inputs(node)]


# --- the forward pass as a chain of stages ----------------------------------------------------------------


MOST_STAGES = 48
SHORT = 200
"""The shortest stages are joined with others until none is shorter than this part of all."""
FLOPS_PER_BYTE = 10
"""The operations that take about as long as it takes to move a byte."""


@frozen
class Chain:
    """The forward pass of a template as stages."""

    ops: tuple[tuple[str, ...], ...]
    stages: tuple[Stage, ...]

    @classmethod
    def of(cls, template: Template, *, gradients_stay: bool = False) -> Chain:
        """Return the chain of a template; gradients of weights may stay until there are those of all."""
        reader = Reader(Forward(template), gradients_stay)
        ops, cuts = [*reader.forward.ops], reader.cuts
        parts = [tuple(ops[first:end]) for first, end in zip((0, *cuts), (*cuts, len(ops)), strict=True)]
        stages = [reader.stage(each) for each in parts]
        least = sum(each.seconds for each in stages) / SHORT
        while len(parts) > 1:
            short = min(range(len(parts)), key=lambda at: stages[at].seconds)
            if len(parts) <= MOST_STAGES and stages[short].seconds > least:
                break
            ends = [at for at in (short - 1, short) if 0 <= at < len(parts) - 1]
            at = max(ends, key=lambda at: stages[at].result)
            parts[at : at + 2] = [(*parts[at], *parts[at + 1])]
            stages[at : at + 2] = [reader.stage(parts[at])]
        return cls(tuple(parts), tuple(stages))


@frozen
class Reader:
    """Reads what is kept of a forward pass."""

    forward: Forward
    gradients_stay: bool = False
    _seconds: dict[str, float] = field(factory=dict, init=False, repr=False)

    @cached_property
    def order(self) -> Mapping[str, int]:
        """The place of each forward op."""
        return {name: at for at, name in enumerate(self.forward.ops)}

    @cached_property
    def roots(self) -> Mapping[str, str]:
        """The op whose memory each forward op passes on, which is its own for most."""
        found: dict[str, str] = {}
        for name, node in self.forward.ops.items():
            source = base_of(node.input[0]) if node.op in SAME else name
            found[name] = found.get(source, name)
        return found

    @cached_property
    def last(self) -> Mapping[str, int]:
        """The last forward op that takes what depends on examples, by the op that makes it."""
        template, found = self.forward.template, dict[str, int]()
        moving = {*template.inputs.values(), *template.received}
        moving |= {template.seed} if template.seed is not None else set()
        for name, node in self.forward.ops.items():
            if moving.isdisjoint(inputs_of(node)):
                continue
            moving.add(name)
            users = self.forward.users.get(name, ())
            at = max((self.order[each] for each in users if each in self.order), default=-1)
            found[self.roots[name]] = max(at, found.get(self.roots[name], -1))
        return found

    @property
    def cuts(self) -> list[int]:
        """The places at which one tensor passes on, but for some that are small beside it."""
        ending: dict[int, list[str]] = {}
        alive: dict[str, int] = {}
        found = []
        for at, name in enumerate(self.forward.ops):
            most = max(alive.values(), default=0)
            if sum(each * SMALL > most for each in alive.values()) == 1:
                found.append(at)
            for each in ending.pop(at, ()):
                del alive[each]
            if self.last.get(name, -1) > at:
                alive[name] = self.bytes_of([name])
                ending.setdefault(self.last[name], []).append(name)
        return found

    @cached_property
    def taken(self) -> Mapping[str, int]:
        """The bytes that gradients take of each op that depends on examples; no small ones of several."""
        nodes, found = self.forward.template.fragment.node, dict[str, int]()
        for user in nodes:
            if user in self.forward.gradients:
                for name in self.forward.taken_of(nodes[user], self.forward.ops):
                    if self.roots[name] in self.last:
                        found[self.roots[name]] = self.bytes_of([self.roots[name]])
        return found

    def bytes_of(self, names: Iterable[str]) -> int:
        """Return the bytes of what ops make."""
        return sum(bytes_of(self.forward.made(each)) for each in names)

    def stage(self, ops: Sequence[str]) -> Stage:
        """Return what a stage costs."""
        forward, own, template = self.forward, {*ops}, self.forward.template
        passed = {each for each in own & self.last.keys() if self.last[each] > self.order[ops[-1]]}
        here = (self.taken.keys() & own) - passed
        stays = {self.roots[each] for each in forward.kept(own)}
        again = forward.repeatable & own
        read = {each for name in ops for each in inputs_of(forward.ops[name])}
        trained = {template.weights[name] for part in template.losses for name in part.gradients}
        return Stage(
            result=self.bytes_of(passed),
            kept=self.bytes_of(here & stays),
            inner=self.bytes_of(here - stays),
            work=2 * max(self.bytes_of([each]) for each in ops),
            gradients=self.bytes_of(read & trained) if self.gradients_stay else 0,
            seconds=sum(map(self.seconds, again)),
            ending=sum(map(self.seconds, again - self._makers(here - stays, again))),
        )

    def _makers(self, wanted: AbstractSet[str], among: frozenset[str]) -> set[str]:
        """Return those of some ops that have to run to make what others make."""
        ops = self.forward.ops
        return {*reached(among & wanted, lambda name: among.intersection(inputs_of(ops[name])))}

    def seconds(self, name: str) -> float:
        """Return about how long an op takes, in a unit of its own."""
        if name not in self._seconds:
            moved = bytes_of((*self.forward.taken(name), *self.forward.made(name)))
            passes = self.forward.ops[name].op in PASSED_ON
            cost = self.forward.operations(name) + FLOPS_PER_BYTE * moved
            self._seconds[name] = 0.0 if passes else cost
        return self._seconds[name]
