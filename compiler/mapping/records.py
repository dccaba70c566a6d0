"""The placement map: the device of every op and variable, and the line of the spec that put it there.

These records are `placement.json`. Fields may be added within a major format version; none is removed.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import attrs
from attrs import field, frozen

from compiler.mapping.step_time import MapTime
from compiler.reasons import Reason
from dsl.files.typed_json import NAME, Count, Size
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
        span = reason.rule.span if reason.rule is not None else None
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
class MapMode:
    """How the graph updates its weights, in the words of the spec.

    Attributes:
        update: The update mode.
        replication: Whether one graph has all clones, or each worker has a graph of its own.
        aggregate: The aggregation of gradients.
        reduce: Whether gradients are averaged or summed.
        clones: The number of clones.
    """

    update: str
    replication: str
    aggregate: str
    reduce: str
    clones: Count


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


@frozen
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


def json_lines(placement: Any) -> str:
    """Return a map as JSON, with a line for each item of its lists.

    Args:
        placement: A map, of any version.
    """
    fields = _plain(placement)
    fields = {"format_version": fields.pop("format_version"), **fields}
    return "{" + ",\n ".join(f"{json.dumps(key)}: {_value(value)}" for key, value in fields.items()) + "}\n"


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    kind: Any = type(value)
    names = _names(kind)
    if names is None:
        return value
    return {written: _plain(getattr(value, name)) for name, written in names}


@cache
def _names(kind: type[Any]) -> tuple[tuple[str, str], ...] | None:
    """Return the fields of a record, each with its name in the file; None for what is no record."""
    if not attrs.has(kind):
        return None
    return tuple((each.name, each.metadata.get(NAME, each.name)) for each in attrs.fields(kind))


def _value(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n  " + ",\n  ".join(json.dumps(each) for each in value) + "]"
    return json.dumps(value)
