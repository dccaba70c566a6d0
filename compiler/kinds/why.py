"""Explain why ops and variables of many clones that are alike are on their devices, without their graph.

The graph of a few clones explains the same op of one of these. Its explanation is that of the op if all names
in it are written for the clone of the op.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import define, evolve, field, frozen

from compiler.kinds.grid import MapGrid, Spot, repeated
from compiler.kinds.grow import pattern_for
from compiler.kinds.kind_map import KindMap, Kinds
from compiler.kinds.kinds import OpKind
from compiler.kinds.patterns import Patterns
from compiler.kinds.step_kinds import Member
from compiler.kinds.templates import Numbers
from compiler.mapping.explanation import Explained, Explanation, Link
from compiler.mapping.records import Sought
from compiler.reasons import Reason
from compiler.step.read.why import explain_op, meant_by, names_in
from compiler.step.step import Step
from dsl.suggest import nearest_paths


@frozen
class KnownReasons:
    """What is known of the reasons in a deployment of many clones.

    Attributes:
        few: The step of a few of its clones.
        patterns: The names in this graph.
        tasks: Those with places for the numbers of tasks alone, if each worker has a graph of its own.
    """

    few: Step = field(repr=False)
    patterns: Patterns = field(repr=False)
    tasks: Patterns | None = field(repr=False)


def explain_many(known: KnownReasons, placement: KindMap, pattern: str, timed_task: int | None) -> Explained:
    """Return an explanation for each op and variable that `pattern` names, in the order of the graph.

    Args:
        known: What is known of the reasons.
        placement: The map of the clones.
        pattern: A name, a glob, or a message of TensorFlow that names ops.
        timed_task: The task that stands for all but the first in the forecast of time, if one does.

    Raises:
        NotAlikeError: The reasons of many do not follow from those of a few.
    """
    explaining = _Explaining(known, placement)
    found: dict[tuple[int, Member], None] = {}
    for wanted in names_in(pattern):
        found |= dict.fromkeys(explaining.matching(wanted))
    things = tuple(explaining.explain(at, member) for at, member in found)
    if timed_task is None:
        return Explained(things, things)
    timed = dict.fromkeys((at, (host and timed_task, group)) for at, (host, group) in found)
    return Explained(things, tuple(explaining.explain(at, member) for at, member in timed))


def suggest_among_many(placement: KindMap, pattern: str) -> tuple[str, ...]:
    """Return the names nearest to a pattern that names nothing; of things alike, that of the first."""
    (first, *_) = names_in(pattern)
    kinds, names = placement.named, []
    for op in placement.counted():
        member = next(kinds.members(op.of or 0))
        names += [kinds.at(each, *member) for each in dict.fromkeys((op.op.name, op.own_name))]
    return nearest_paths(first, iter(names))


@define
class _Explaining:
    known: KnownReasons
    placement: KindMap
    kinds: Kinds = field(init=False)
    grid: MapGrid = field(init=False)
    twins: dict[int, Explanation] = field(factory=dict)  # by kind: that of the op of the few

    def __attrs_post_init__(self) -> None:
        self.kinds = self.placement.named
        self.grid = self.kinds.numbers.grid

    # --- what is meant ------------------------------------------------------------------------------------

    def matching(self, wanted: str) -> list[tuple[int, Member]]:
        """Return the ops that `wanted` means: an op, one inside the towers, a glob, or a scope."""
        return meant_by(
            self.known.few,
            wanted,
            lambda name: self._in_order(Sought(name.__eq__, begin=name), inner=False),
            lambda glob: self._in_order(Sought.of_glob(glob), inner=True),
        )

    def _in_order(self, sought: Sought, *, inner: bool) -> list[tuple[int, Member]]:
        """Return the ops that are looked for, in the order of the graph of all clones."""
        found = dict(self.placement.members_sought(sought, inner=inner))
        return list(self._ordered(found)) if found else []

    def _ordered(self, found: dict[int, Sequence[Member] | None]) -> Iterator[tuple[int, Member]]:
        chosen = {at: None if members is None else set(members) for at, members in found.items()}
        spots = [each.spot for each in self.placement.kinds]
        things = [(spots[each.of], at) for at, each in enumerate(self.placement.op_kinds)]
        for at, *member in repeated(things, self.grid, chosen.__contains__):
            members, place = chosen[at], (member[0], member[1])
            if members is None or place in members:
                yield at, place

    # --- why ----------------------------------------------------------------------------------------------

    def explain(self, at: int, member: Member) -> Explanation:
        """Return what placed an op of a kind."""
        kind = self.placement.op_kinds[at]
        spot = self.placement.kinds[kind.of].spot
        twin = self.twins.get(at)
        if twin is None:
            twin = self.twins[at] = explain_op(self.known.few, self._name_among_few(kind, spot))
        return evolve(
            twin,
            name=self._for(twin.name, spot, member),
            clone=None if twin.clone is None else self.grid.number(*member),
            requested=self._for(twin.requested, spot, member),
            chain=tuple(self._link(each, spot, member) for each in twin.chain),
        )

    def _name_among_few(self, kind: OpKind, spot: Spot) -> str:
        few = Numbers(self.known.patterns.grid)
        return self.kinds.template(kind.like.name).at(few, spot.host or 0, spot.group or 0)

    def _for(self, text: str, spot: Spot, member: Member) -> str:
        """Return a name that the explanation of an op of the few has, for a task and a clone of all."""
        pattern = pattern_for(text, spot, self.known.patterns, self.known.tasks)
        return pattern.at(self.kinds.numbers, spot, *member)

    def _link(self, link: Link, spot: Spot, member: Member) -> Link:
        name, device = (self._for(each, spot, member) for each in (link.name, link.device))
        return Link(link.kind, name, device, self._reason(link.reason, spot, member))

    def _reason(self, reason: Reason, spot: Spot, member: Member) -> Reason:
        """Return a reason; a rule names no task or clone, but a default and a name may."""
        text = reason.text if reason.kind == "rule" else self._for(reason.text, spot, member)
        cause = None if reason.cause is None else self._reason(reason.cause, spot, member)
        return evolve(reason, text=text, cause=cause)
