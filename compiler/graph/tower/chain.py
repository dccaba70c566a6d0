"""The forward pass of a template as a chain of stages, which are cut where one tensor passes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property

from attrs import field, frozen

from compiler.graph.tower.recompute import SAME, SMALL, Forward, bytes_of, inputs_of
from compiler.graph.tower.template import Template, base_of
from compiler.search.segments import Stage
from compiler.time.work import PASSED_ON

MOST_STAGES = 48
SHORT = 200
"""The shortest stages are joined with others until none is shorter than this part of all."""
FLOPS_PER_BYTE = 10
"""The operations that take about as long as it takes to move a byte."""


@frozen
class Chain:
    """The forward pass of a template as stages.

    Attributes:
        ops: The forward ops of each stage.
        stages: What each stage costs.
    """

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
        for user, role in self.forward.template.roles.items():
            if role == "gradient":
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
        again = own & forward.repeatable
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

    def _makers(self, wanted: Iterable[str], among: AbstractSet[str]) -> set[str]:
        """Return those of some ops that have to run to make what others make."""
        found, pending = set[str](), [*wanted]
        while pending:
            name = pending.pop()
            if name in among and name not in found:
                found.add(name)
                pending += inputs_of(self.forward.ops[name])
        return found

    def seconds(self, name: str) -> float:
        """Return about how long an op takes, in a unit of its own."""
        if name not in self._seconds:
            moved = bytes_of((*self.forward.taken(name), *self.forward.made(name)))
            passes = self.forward.ops[name].op in PASSED_ON
            cost = self.forward.operations(name) + FLOPS_PER_BYTE * moved
            self._seconds[name] = 0.0 if passes else cost
        return self._seconds[name]
