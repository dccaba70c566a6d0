"""A step taken apart: what belongs to each weight, and what to each clone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from attrs import define, field, frozen

from compiler.plan import Plan, VariableInfo
from compiler.suggest.steps.peaks import peaks
from compiler.time.work import Arrow, StepWork

_READS = re.compile(r"/read(/shard_\d+|/axis|/line|/line/axis|/shape)?$")
_PACKED = re.compile(r"^aggregate/(bucket_\d+)/(?:un)?pack_\d+/Reshape(_\d+)?$")


@frozen
class OpOrigin:
    """What the graph says of an op.

    Attributes:
        role: What it is for.
        follows: The variable that it is beside, or nothing.
        fixed: Whether its device does not depend on that of its tower, although it belongs to one.
    """

    role: str
    follows: str = ""
    fixed: bool = False


@frozen
class Weight:
    """A weight of the model as the graph of the spec has it.

    Attributes:
        info: The whole weight.
        first: The name of its first piece or copy, which is its own if it is whole.
        handles: The names of the ops that hold its first piece or copy, and its slots.
        held: The bytes of variables and of slots that each device holds of it.
    """

    info: VariableInfo
    first: str
    handles: tuple[str, ...]
    held: Mapping[str, tuple[int, int]] = field(repr=False)


@frozen
class Gradient:
    """The gradient of a weight in a clone, or the new value of a statistic.

    Attributes:
        op: The index of the op that makes it.
        tensor: Its name.
    """

    op: int
    tensor: str


@define
class Origin:
    """A step, and what its ops belong to.

    Attributes:
        plan: The plan of the graph.
        work: The step.
        ops: What the graph says of each op.
        weights: The weights by name, in the order of their creation.
        arrows: What each op waits for.
        clones: The number of the clone in whose scope each op is, or that it belongs to; None for others.
        towers: The ops of each clone, without those that read or sum.
        reads: The clones that read each weight.
        read: The weight that an op reads.
        handles: The weight whose first piece or copy an op holds, with the number of the op among these.
        other_handles: The weight of which an op holds another piece or copy.
        chains: The ops that update the first piece or copy of each weight.
        updates: The weight that an op updates.
        sums: The weight whose summed gradient an op makes.
        aggregates: All ops that sum gradients.
        gradients: The gradient of each weight in each clone, in the order in which they are summed.
        statistics: The new value of each statistic in each clone, of those whose means or own values an
            update takes.
        sparse: The weights whose gradients are rows.
    """

    plan: Plan = field(repr=False)
    work: StepWork = field(repr=False)
    ops: Sequence[OpOrigin] = field(repr=False)
    weights: Mapping[str, Weight] = field(repr=False)
    arrows: list[list[Arrow]] = field(init=False, repr=False)
    clones: list[int | None] = field(init=False, repr=False)
    towers: dict[int, list[int]] = field(factory=dict, repr=False)
    reads: dict[str, set[int]] = field(factory=dict, repr=False)
    read: dict[int, str] = field(factory=dict, repr=False)
    handles: dict[int, tuple[str, int]] = field(factory=dict, repr=False)
    other_handles: dict[int, str] = field(factory=dict, repr=False)
    chains: dict[str, list[int]] = field(factory=dict, repr=False)
    updates: dict[int, str] = field(factory=dict, repr=False)
    sums: dict[int, str] = field(factory=dict, repr=False)
    aggregates: set[int] = field(factory=set, repr=False)
    gradients: dict[str, dict[int, Gradient]] = field(factory=dict, repr=False)
    statistics: dict[str, dict[int, Gradient]] = field(factory=dict, repr=False)
    sparse: set[str] = field(factory=set, repr=False)
    _held: dict[str, list[int]] = field(factory=dict, repr=False)
    _gradient_bytes: dict[int, int] = field(factory=dict, repr=False)
    _peaks: Mapping[str, int] | None = field(default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        scopes = {each.scope: each.index for each in self.plan.towers if each.scope}
        self.clones = [
            scopes.get(each.name.partition("/")[0]) if each.clone is None else each.clone
            for each in self.work.ops
        ]
        self.arrows = [[] for _ in self.work.ops]
        for each in self.work.arrows:
            self.arrows[each.target].append(each)
        self._sort()
        self._find_gradients()

    # --- what an op belongs to ----------------------------------------------------------------------------

    def _sort(self) -> None:
        """Note for each op what it belongs to."""
        names = {each: name for name, weight in self.weights.items() for each in weight.handles}
        numbers = {each: at for weight in self.weights.values() for at, each in enumerate(weight.handles)}
        for at, (op, known) in enumerate(zip(self.work.ops, self.ops, strict=True)):
            if known.role == "variable":
                if op.name in names:
                    self.handles[at] = (names[op.name], numbers[op.name])
                elif (owner := self._prefix(op.name, self.weights)) is not None:
                    self.other_handles[at] = owner
            elif known.role == "aggregate":
                self.aggregates.add(at)
            elif (
                known.role == "read" and op.clone is not None and (owner := self._read_of(op.name, op.clone))
            ):
                self.read[at] = owner
                self.reads.setdefault(owner, set()).add(op.clone)
            elif (clone := self.clones[at]) is not None:
                self.towers.setdefault(clone, []).append(at)
            elif op.name.startswith("update/"):
                self._sort_update(at, op.name.removeprefix("update/"))

    def _sort_update(self, at: int, name: str) -> None:
        owner = self._prefix(name, self.weights)
        if owner is None:
            return
        self.updates[at] = owner
        first = self.weights[owner].first
        if name.startswith(f"{first}/") and not name.startswith(f"{first}/replica_"):
            self.chains.setdefault(owner, []).append(at)

    def _read_of(self, name: str, clone: int) -> str | None:
        scope = self.plan.towers[clone].scope
        inner = _READS.sub("", name.removeprefix(f"{scope}/") if scope else name)
        return inner if inner in self.weights else None

    @staticmethod
    def _prefix(name: str, known: Iterable[str]) -> str | None:
        """Return the longest of some names with which a name begins."""
        parts = name.split("/")
        names = known if isinstance(known, Mapping) else set(known)
        for end in range(len(parts), 0, -1):
            found = "/".join(parts[:end])
            if found in names:
                return found
        return None

    @property
    def peaks(self) -> Mapping[str, int]:
        """The bytes of the peak of each device in the step."""
        if self._peaks is None:
            self._peaks = peaks(self.work)
        return self._peaks

    def held_by(self, owner: str) -> list[int]:
        """Return the ops that hold the first piece or copy of a weight, and its slots."""
        if not self._held:
            for at, (name, _) in sorted(self.handles.items(), key=lambda each: each[1][1]):
                self._held.setdefault(name, []).append(at)
        return self._held[owner]

    def made_for(self, owner: str) -> Mapping[int, Gradient]:
        """Return the gradient of a weight in each clone, or its new value there if it is a statistic."""
        return self.gradients.get(owner) or self.statistics.get(owner, {})

    def made_whole(self, op: int) -> int:
        """Return the bytes of the gradient of a weight that an op makes; 0 if it makes none."""
        return self._gradient_bytes.get(op, 0)

    # --- gradients ----------------------------------------------------------------------------------------

    def _find_gradients(self) -> None:
        """Note where the clones make the gradients, and which ops have their sums."""
        for at, owner in self.updates.items():
            for arrow in self.arrows[at]:
                if arrow.source in self.aggregates:
                    self.sums[arrow.source] = owner
        packed = self._packed()
        for at in sorted(self.aggregates):
            for arrow in self.arrows[at]:
                clone = self.work.ops[arrow.source].clone
                if clone is not None and arrow.tensor and arrow.source not in self.aggregates:
                    self._note(self._summed_by(at, packed), clone, arrow)
        self._find_statistics()
        if len(self.plan.towers) == 1:
            for owner, chain in sorted(self.chains.items(), key=lambda each: each[1][0]):
                self._find_single(owner, chain)

    def _find_statistics(self) -> None:
        """Note the values of statistics that go to the update as a clone has made them."""
        for owner, chain in self.chains.items():
            info = self.weights[owner].info
            if info.trainable:
                continue
            for arrow in (each for at in chain for each in self.arrows[at]):
                clone = self.work.ops[arrow.source].clone
                if clone is not None and arrow.tensor and arrow.bytes == info.bytes:
                    self._note(owner, clone, arrow)

    def _find_single(self, owner: str, chain: Sequence[int]) -> None:
        """Note the gradient of a single clone, which goes to the update without being summed."""
        shape = _text(self.weights[owner].info)
        for at in chain:
            for arrow, taken in zip(
                [each for each in self.arrows[at] if each.tensor],
                self.work.ops[at].signature.inputs,
                strict=False,
            ):
                source = self.ops[arrow.source]
                if self.work.ops[arrow.source].clone == 0 and source.role == "gradient" and taken == shape:
                    self._note(owner, 0, arrow)

    def _note(self, owner: str | None, clone: int, arrow: Arrow) -> None:
        if owner is None:
            return
        if not self.weights[owner].info.trainable:
            self.statistics.setdefault(owner, {}).setdefault(clone, Gradient(arrow.source, arrow.tensor))
            return
        found = self.gradients.setdefault(owner, {})
        known = found.setdefault(clone, Gradient(arrow.source, arrow.tensor))
        if known.tensor != arrow.tensor:
            self.sparse.add(owner)
        self._gradient_bytes[arrow.source] = self.weights[owner].info.bytes

    def _packed(self) -> dict[tuple[str, str], str]:
        """Return the weight of each part of a bucket, by the name of the bucket and the number in it."""
        found = {}
        for at, owner in self.sums.items():
            part = _PACKED.match(self.work.ops[at].name)
            if part is not None:
                found[part[1], part[2] or ""] = owner
        return found

    def _summed_by(self, at: int, packed: Mapping[tuple[str, str], str]) -> str | None:
        """Return the weight whose gradients an op cuts, packs or sums."""
        name = self.work.ops[at].name
        part = _PACKED.match(name)
        if part is not None:
            return packed.get((part[1], part[2] or ""))
        return self._prefix(name.removeprefix("aggregate/"), self.weights)


def _text(info: VariableInfo) -> str:
    """Return type and shape of a variable as signatures have them."""
    return shape_text(info.dtype, info.shape)


@cache
def shape_text(dtype: str, shape: tuple[int, ...]) -> str:
    """Return a type and a shape as signatures have them, such as `float32[3,4]`.

    Args:
        dtype: The name of the type, such as `float32`.
        shape: The sizes of all axes.
    """
    return f"{dtype}[{','.join(map(str, shape))}]"
