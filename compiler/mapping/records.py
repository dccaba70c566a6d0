"""The placement map: the device of every op and variable, and the line of the spec that put it there.

These records are `placement.json`. Fields may be added within a major format version; none is removed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import Any, TypeAlias

from attrs import define, evolve, field, frozen

from compiler.reasons import Reason, record
from dsl.files.typed_json import NAME, Count, Size, plain
from dsl.shown import Shown

FORMAT_VERSION = "1.0"
LIMIT = 1 << 28
"""The largest map that is read, in bytes; the map of ResNet-50 on eight GPUs is a twentieth of that."""


@frozen
class RuleRef:
    """What placed a thing: a rule, a default, or another thing that it follows.

    Attributes:
        file: The file of the rule, or None for a default.
        line: The line of the rule, from 1.
        column: The column of the rule, from 1.
        text: The rule, the default, or the name of the thing that is followed.
        reason: Which of the three it is.
        decided_by: The rule or default that placed the thing that is followed.
    """

    file: str | None
    line: Count | None
    column: Count | None
    text: str
    reason: str
    decided_by: str | None = None

    @classmethod
    def of(cls, reason: Reason) -> RuleRef:
        """Return the record for a reason of the compiler."""
        span = reason.span
        decided_by = reason.root.text if reason.kind == "follows" else None
        if span is None:
            return cls(None, None, None, reason.text, reason.kind, decided_by)
        start = span.begin
        return cls(span.source.name, start.line, start.column, reason.text, reason.kind, decided_by)


@frozen
class MapSpec:
    """The spec of a map.

    Attributes:
        path: Its path.
        sha256: The SHA-256 of its text, in hexadecimal digits.
    """

    path: str
    sha256: str


@frozen
class Recomputed:
    """What clones compute again in their backward pass, and what that saves and costs the largest of them.

    Attributes:
        segments: How many parts of the model are computed again, each as a whole.
        kept_bytes: The bytes of the results of the forward pass that are kept for gradients.
        saved_bytes: The bytes of those that are computed again instead.
        flops: The floating point operations of the clone, without those that it does again.
        flops_again: Those that it does again.
    """

    segments: Count
    kept_bytes: Count
    saved_bytes: Count
    flops: Count
    flops_again: Count


@frozen
class Pipelined:
    """How the devices of a clone's group work on several micro-batches at the same time.

    Attributes:
        schedule: The schedule.
        stages: The number of the devices that have a part of the model.
        micro_batches: The micro-batches of a step.
    """

    schedule: str
    stages: Count
    micro_batches: Count

    @property
    def bubble(self) -> float:
        """The part of the time, from 0 to 1, that stages wait which take equally long."""
        return (self.stages - 1) / (self.micro_batches + self.stages - 1)

    @property
    def held(self) -> int:
        """The most micro-batches whose activations the first stage holds."""
        return self.micro_batches if self.schedule == "gpipe" else min(self.stages, self.micro_batches)


@frozen
class MapMode:
    """How the graph updates its weights, in the words of the spec.

    Attributes:
        update: The update mode.
        replication: Whether one graph has all clones, or each worker has a graph of its own.
        aggregate: The aggregation of gradients.
        reduce: Whether gradients are averaged or summed.
        clones: The number of clones.
        recomputed: What the clones compute again; None if nothing.
        pipelined: How the devices of each clone take its micro-batches; None if one after the other.
    """

    update: str
    replication: str
    aggregate: str
    reduce: str
    clones: Count
    recomputed: Recomputed | None = None
    pipelined: Pipelined | None = None


@frozen
class MapTensor:
    """A tensor of a step.

    Attributes:
        name: Its name in TensorFlow.
        bytes: Its bytes.
    """

    name: str
    bytes: Count


@frozen
class MapDevice:
    """A device and what is on it.

    Attributes:
        ref: Its name in specs.
        device: Its name in TensorFlow.
        ops: The number of ops.
        variable_bytes: The bytes of the model's variables.
        slot_bytes: The bytes of their slots.
        other_bytes: The bytes of other variables, such as the global step.
        step_bytes: The forecast peak of the tensors of a step, or None if nothing was forecast.
        memory_bytes: The forecast with all of the former, or None.
        largest: The largest tensors of the peak.
        memory_limit: The memory of a GPU, or of the machine whose CPU devices share it, or None if the spec
            does not give it.
    """

    ref: str
    device: str
    ops: Count
    variable_bytes: Count
    slot_bytes: Count
    other_bytes: Count = 0
    step_bytes: Count | None = None
    memory_bytes: Count | None = None
    largest: tuple[MapTensor, ...] = ()
    memory_limit: Size | None = None


@frozen
class MapAssumption:
    """A size that the forecasts of a map assume, because each batch has its own.

    Attributes:
        input: The input of the model.
        axis: The number of the axis in the shape without the batch axis, from 0.
        size: The size.
        source: What gives it, in words of the spec.
    """

    input: str
    axis: Count
    size: Count
    source: str


@frozen
class MapClone:
    """A tower.

    Attributes:
        index: The number of the clone.
        scope: The name scope of its ops.
        devices: The names of its devices.
        batch: The examples of one micro-batch.
    """

    index: Count
    scope: str
    devices: tuple[str, ...]
    batch: Count


@frozen
class MapShard:
    """A piece of a variable or of a slot.

    Attributes:
        of: The name of the whole variable or slot.
        number: The number of the piece, from 0.
        count: The number of all pieces.
        axis: The axis along which it is cut.
        start: The index along the axis at which the piece begins.
        whole: The shape in which the whole is cut: that of the variable, or a line of all elements.
        made_whole: Whether the first value is made whole on the device of piece 0, and cut there, because the
            initializer looks at the whole.
    """

    of: str
    number: Count
    count: Count
    axis: Count
    start: Count
    whole: tuple[Count, ...]
    made_whole: bool = False


@frozen
class MapSlot:
    """A slot of a variable.

    Attributes:
        name: Its name.
        bytes: Its size.
        device: The name of its device.
        shard: The piece of a slot that it is, if the variable or the slot is cut, or None for a whole slot.
    """

    name: str
    bytes: Count
    device: str
    shard: MapShard | None = None


@frozen
class MapVariable:
    """A variable.

    Attributes:
        name: Its name.
        shape: Its shape.
        dtype: The name of its type.
        bytes: Its size.
        trainable: Whether gradients change it.
        device: The name of its device, or of that of its first copy.
        copies: The names of the devices of all copies if it is replicated.
        slots: Its slots.
        rule: What placed it.
        shard: The piece of a variable that it is, or None for a whole variable.
        fewer: Why there are fewer pieces of it than devices that its rule names, or None.
        group: The rule of `optimizer` that updates it, as it is written, or None if the spec has no groups
            or if it is not trained.
    """

    name: str
    shape: tuple[Count, ...]
    dtype: str
    bytes: Count
    trainable: bool
    device: str
    copies: tuple[str, ...]
    slots: tuple[MapSlot, ...]
    rule: RuleRef
    shard: MapShard | None = None
    fewer: str | None = None
    group: str | None = None


@record
class MapOp:
    """An op.

    Attributes:
        name: Its name in the graph.
        type: Its type in TensorFlow.
        clone: The number of its clone, or None.
        role: What it is for.
        requested: The name in specs of the device that the compiler requested.
        assigned: The device on which TensorFlow ran it, or None if that is not known.
        rule: What placed it.
    """

    name: str
    type: str
    clone: Count | None
    role: str
    requested: str
    assigned: str | None
    rule: RuleRef


@frozen
class MapTransfer:
    """Tensors that a step sends between two devices.

    Attributes:
        from_device: The device that sends them.
        to_device: The device that receives them.
        tensors: Their number.
        bytes: The bytes of those whose size is known, and of the known parts of others.
        bytes_unknown: The number of those whose size is unknown.
        largest: The largest of those whose size is known.
    """

    from_device: str = field(metadata={NAME: "from"})
    to_device: str = field(metadata={NAME: "to"})
    tensors: Count
    bytes: Count
    bytes_unknown: Count
    largest: tuple[MapTensor, ...] = ()

    def plus(self, other: MapTransfer, times: int = 1) -> MapTransfer:
        """Return what is sent if something else is also sent between the same devices, perhaps many times."""
        return evolve(
            self,
            tensors=self.tensors + times * other.tensors,
            bytes=self.bytes + times * other.bytes,
            bytes_unknown=self.bytes_unknown + times * other.bytes_unknown,
        )


@frozen
class MapWorker:
    """A worker with a graph of its own, and its clones.

    Attributes:
        task: Its task.
        clones: The numbers of its clones.
        listed: Whether the map lists the ops of its graph.
    """

    task: str
    clones: tuple[Count, ...]
    listed: bool


# --- what readers ask of a map ----------------------------------------------------------------------------

_WILD = re.compile(r"[*?\[]")
_SPECIAL = re.compile(r"\[!?\]?[^]]*\]|[*?\[\d_]")
"""What a glob has beside plain text, and the characters of numbers in names."""


@frozen
class Sought:
    """Names of ops that are looked for.

    Attributes:
        matches: Whether a name is one of them.
        begin: What all of them begin with, as far as that is known.
        part: A text without digits that all of them contain, as far as one is known.
    """

    matches: Callable[[str], bool]
    begin: str = ""
    part: str = ""

    @classmethod
    def of_glob(cls, glob: str, matches: Callable[[str], bool] | None = None) -> Sought:
        """Return the names that match a glob.

        Args:
            glob: The glob.
            matches: Whether a name is one of them, if they may also be in a scope whose name matches.
        """
        begin = _WILD.split(glob, maxsplit=1)[0].rstrip("/")
        part = max(_SPECIAL.split(glob.rstrip("/")), key=len)
        return cls(matches or partial(fnmatchcase, pat=glob), begin, part)


@define  # which is made in a third of the time of a frozen one, and a map can have a hundred thousand ops
class Counted:
    """Ops that are alike, equally many on each of their devices.

    Attributes:
        op: What is true of each. If they are of a kind, its texts have places for numbers.
        of: The number of the kind, or None for an op by itself.
        count: How many there are.
        devices: The devices that were asked for.
        first: The name of the first.
        tower: In the scope of which clones they are, a number for `clones_of_tower`, or None if in none. What
            feeds a clone is in its scope, and of no clone.
        inner: Their name without this scope, with places like that in `op`.
    """

    op: MapOp
    of: int | None
    count: int
    devices: tuple[str, ...]
    first: str
    tower: int | None
    inner: str

    @property
    def each(self) -> int:
        """How many are on each device."""
        return self.count // len(self.devices)

    @property
    def own_name(self) -> str:
        """Their name inside their tower, or their name if they are of no clone."""
        return self.op.name if self.op.clone is None else self.inner


Placed: TypeAlias = tuple[str, str | None]
"""The device that was asked for, and the one on which an op ran, if that is known."""


@frozen
class Links:
    """Links that carry the same; each source, and each target, has equally many of them.

    Attributes:
        sources: The devices that send.
        targets: The devices that receive.
        bytes: The bytes on each link.
        unknown: The number of tensors of unknown size on each.
        count: How many links there are.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    bytes: int
    unknown: int
    count: int


@frozen
class PlacementMap(Shown):
    """The whole map.

    Attributes:
        spec: The spec.
        tensorflow: The version of TensorFlow.
        mode: How the graph updates its weights.
        devices: The devices.
        clones: The towers.
        variables: The variables.
        ops: The ops. With `workers`, those of the chief's graph, which the other graphs resemble, while
            devices, clones and transfers are those of all tasks.
        transfers: What a step sends between devices.
        misplaced: The ops that TensorFlow put elsewhere than requested.
        workers: The workers that have graphs of their own; empty if one graph has all clones.
        time: The forecast of the time of a step, or None if there is none.
        assumptions: The sizes on which the bytes of steps and transfers rest.
        format_version: The version of the format.
    """

    spec: MapSpec
    tensorflow: str
    mode: MapMode
    devices: tuple[MapDevice, ...]
    clones: tuple[MapClone, ...]
    variables: tuple[MapVariable, ...]
    ops: tuple[MapOp, ...] = field(repr=False)
    transfers: tuple[MapTransfer, ...]
    misplaced: tuple[MapOp, ...]
    workers: tuple[MapWorker, ...] = ()
    time: MapTime | None = None
    assumptions: tuple[MapAssumption, ...] = ()
    format_version: str = FORMAT_VERSION

    def to_json(self) -> str:
        """Return the text of `placement.json`: format version first, one op or variable in each line."""
        return json_lines(self)

    # What follows is what a map by kinds (`compiler/kinds/kind_map.py`) offers as well. Readers use
    # only that and the fields, so that they need not know which of the two a map is.

    def expanded(self, beside: object = None) -> PlacementMap:
        """Return the map with the records of each clone, which is this one."""
        del beside
        return self

    @property
    def op_count(self) -> int:
        """The number of ops."""
        return len(self.ops)

    @property
    def ran(self) -> int:
        """The number of ops of which it is known where they ran."""
        return sum(op.assigned is not None for op in self.ops)

    @property
    def ops_like(self) -> tuple[MapOp, ...]:
        """The ops, of those that are alike one."""
        return self.ops

    @property
    def variables_like(self) -> tuple[MapVariable, ...]:
        """The variables, perhaps without their copies and slots."""
        return self.variables

    @property
    def device_times(self) -> tuple[DeviceTime, ...]:
        """How busy the devices are; none if no time was forecast."""
        return () if self.time is None else self.time.devices

    def busiest_links(self) -> Iterator[LinkTime]:
        """Yield how busy the links are, the busiest first; none if no time was forecast."""
        links = () if self.time is None else self.time.links
        yield from sorted(links, key=lambda each: -each.busy)

    def links(self) -> Iterator[Links]:
        """Yield the links between devices, those that are alike together."""
        for each in self.transfers:
            yield Links((each.from_device,), (each.to_device,), each.bytes, each.bytes_unknown, 1)

    def counted(self, sought: Sought | None = None, *, misplaced: bool = False) -> Iterator[Counted]:
        """Yield the ops, those that are alike together."""
        towers, devices = self._towers, dict[str, tuple[str]]()
        for op in self.misplaced if misplaced else self.ops:
            name = op.name
            outer, _, inner = name.partition("/")
            tower = towers.get(outer)
            if tower is None:
                inner = name
            if sought is None or sought.matches(name) or (op.clone is not None and sought.matches(inner)):
                found = devices.get(op.requested) or devices.setdefault(op.requested, (op.requested,))
                yield Counted(op, None, 1, found, name, tower, inner)

    def by_scope(self, levels: int) -> Iterator[Counted]:
        """Yield the ops, each with others of its device that have as many levels and share the first ones."""
        towers, found = self._towers, dict[tuple[str, int, str], Counted]()
        for op in self.ops:
            name, device = op.name, op.requested
            depth = name.count("/")
            inside = len(name.split("/", levels)[-1]) if depth else 0
            key = name[: len(name) - inside], depth, device
            known = found.get(key)
            if known is None:
                outer, _, inner = name.partition("/")
                tower = towers.get(outer)
                found[key] = Counted(op, None, 1, (device,), name, tower, name if tower is None else inner)
            else:
                known.count += 1
        yield from found.values()

    def names_in_towers(self) -> dict[int, set[str]]:
        """Return the names of the ops of clones inside their towers, by `Counted.tower`."""
        towers, found = self._towers, dict[int, set[str]]()
        for op in self.ops:
            if op.clone is not None:
                outer, _, inner = op.name.partition("/")
                tower = towers.get(outer)
                if tower is not None:
                    found.setdefault(tower, set()).add(inner)
        return found

    @cached_property
    def _towers(self) -> dict[str, int]:
        """The numbers of clones by their scopes, which those of a worker that is not listed have as well."""
        listed = {clone for each in self.workers if each.listed for clone in each.clones}
        ordered = sorted(self.clones, key=lambda each: each.index in listed)
        return {each.scope: each.index for each in ordered if each.scope}

    def clones_of_tower(self, tower: int) -> list[int]:
        """Return the numbers of the clones for which a `Counted.tower` stands."""
        return [tower]

    def places(self, op: Counted) -> Iterator[tuple[int, Placed]]:
        """Yield the devices of each of ops that are alike, with the number of its clone."""
        each = op.op
        yield -1 if each.clone is None else each.clone, (each.requested, each.assigned)

    def rule_of(self, op: Counted) -> RuleRef:
        """Return what placed the first of ops that are alike."""
        return op.op.rule

    def ranged(self, op: Counted, text: str) -> str:
        """Return one name for ops that are alike, with ranges for the numbers in which they differ."""
        del op
        return text

    def last_name(self, op: Counted) -> str:
        """Return the name of the last of ops that are alike."""
        return op.first

    def held(self) -> dict[str, int]:
        """Return the bytes of the variables, copies and slots, by the names of the ops that hold them."""
        found: dict[str, int] = {}
        for each in self.variables:
            found[each.name] = each.bytes
            found |= {f"{each.name}/replica_{copy}": each.bytes for copy in range(1, len(each.copies))}
            found |= {slot.name: slot.bytes for slot in each.slots}
        return found


def json_lines(placement: Any) -> str:
    """Return a map as JSON, with a line for each item of its lists."""
    fields = plain(placement)
    fields = {"format_version": fields.pop("format_version"), **fields}
    return "{" + ",\n ".join(f"{json.dumps(key)}: {_value(value)}" for key, value in fields.items()) + "}\n"


def _value(value: Any) -> str:
    if isinstance(value, list | tuple) and value:
        return "[\n  " + ",\n  ".join(json.dumps(each) for each in value) + "]"
    return json.dumps(value)


# --- the forecast of the time of a step, as a part of the placement map -----------------------------------


@frozen
class DeviceTime:
    """How busy a device is.

    Attributes:
        ref: Its name in specs.
        seconds: The time of a step in which it runs at least one op; if clones update by themselves, the mean
            of updates.
        busy: The same as a part of the step, from 0 to 1.
    """

    ref: str
    seconds: float
    busy: float


@frozen
class LinkTime:
    """How busy a link is.

    Attributes:
        from_device: The device that sends.
        to_device: The device that receives.
        seconds: The time of a step in which the link carries a tensor; if clones update by themselves, the
            mean of updates.
        busy: The same as a part of the step, from 0 to 1.
        bytes: The bytes that a step sends over it; if clones update by themselves, the mean of updates.
    """

    from_device: str = field(metadata={NAME: "from"})
    to_device: str = field(metadata={NAME: "to"})
    seconds: float
    busy: float
    bytes: Count


@frozen
class MapPathPart:
    """What a part of the model, or a rule, takes of the critical path.

    Attributes:
        name: The name of the part, or the text of the rule.
        seconds: The time on the critical path, in seconds.
    """

    name: str
    seconds: float


@frozen
class MapTime:
    """The forecast of the time of a step.

    Attributes:
        seconds: The time of a step, or of one update if clones update by themselves.
        estimate: Whether it is by the table of hardware instead of measured ops.
        measured: The part of the time of all ops that is of ops in sizes that were measured, from 0 to 1.
        source: The file of the profile, or the name of the hardware.
        devices: How busy the devices are.
        links: How busy the links are.
        by_scope: The critical path by layers and other parts of the step, the longest first.
        by_rule: The critical path by the rules that placed what is on it, the longest first.
        bubble: The part of the time, from 0 to 1, that the stages of pipelines wait, from the first
            micro-batch to the last; None if there are none.
    """

    seconds: float
    estimate: bool
    measured: float
    source: str
    devices: tuple[DeviceTime, ...]
    links: tuple[LinkTime, ...]
    by_scope: tuple[MapPathPart, ...]
    by_rule: tuple[MapPathPart, ...]
    bubble: float | None = None
