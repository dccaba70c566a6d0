"""The placement map: the device of every op and variable, and the line of the spec that put it there.

These records are `placement.json`; fields may be added within a major format version, none is removed.
"""

from __future__ import annotations

import json
from typing import Any

import attrs
from attrs import field, frozen

from compiler.reasons import Reason
from dsl.files.typed_json import NAME, Count

FORMAT_VERSION = "1.0"
LIMIT = 1 << 28
"""The largest map that is read, in bytes; the map of ResNet-50 on eight GPUs has a twentieth of it."""


@frozen
class RuleRef:
    """What placed a thing: a rule, a default, or what it follows.

    `text` is the rule, the default, or the name of what is followed; `decided_by` is the rule or default that
    placed what is followed, in the end. `file`, `line` and `column` are the place of the rule, None for a
    default.
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
    """Which spec the map is of."""

    path: str
    sha256: str


@frozen
class MapMode:
    """How the graph updates its weights."""

    update: str
    replication: str
    aggregate: str
    reduce: str
    clones: Count


@frozen
class MapTensor:
    """A tensor of a step, as TensorFlow names it, and its bytes."""

    name: str
    bytes: Count


@frozen
class MapDevice:
    """A device, and what is on it.

    `other_bytes` are those of what is neither a variable of the model nor a slot: the global step, say.
    `step_bytes` forecasts what the tensors of a step need at their peak, `memory_bytes` that with all of the
    former, and `largest` are the largest tensors of the peak; None and empty if nothing was forecast.
    `memory_limit` is the memory of a GPU, or of the machine whose CPU devices share it, as far as the spec
    says it.
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
    memory_limit: int | None = None


@frozen
class MapClone:
    """A tower."""

    index: Count
    scope: str
    devices: tuple[str, ...]
    batch: Count


@frozen
class MapSlot:
    """A slot of a variable."""

    name: str
    bytes: Count
    device: str


@frozen
class MapVariable:
    """A variable; `copies` are the devices of all its copies if it is replicated."""

    name: str
    shape: tuple[Count, ...]
    dtype: str
    bytes: Count
    trainable: bool
    device: str
    copies: tuple[str, ...]
    slots: tuple[MapSlot, ...]
    rule: RuleRef


@frozen
class MapOp:
    """An op: `requested` by the compiler, `assigned` by TensorFlow (None before it has run)."""

    name: str
    type: str
    clone: Count | None
    role: str
    requested: str
    assigned: str | None
    rule: RuleRef


@frozen
class MapTransfer:
    """Tensors that a step sends between two devices; `bytes_unknown` counts those of unknown size.

    `largest` are the largest of those whose size is known.
    """

    from_device: str = field(metadata={NAME: "from"})
    to_device: str = field(metadata={NAME: "to"})
    tensors: Count
    bytes: Count
    bytes_unknown: Count
    largest: tuple[MapTensor, ...] = ()


@frozen
class MapWorker:
    """A worker with a graph of its own, and its clones; the ops that are listed are those of one of them."""

    task: str
    clones: tuple[Count, ...]
    listed: bool


@frozen
class PlacementMap:
    """The whole map.

    `workers` are the workers that have graphs of their own; it is empty if one graph has all clones. With
    workers, `ops` are the ops of the chief's graph, which the other graphs resemble, while devices, clones
    and transfers cover all tasks.
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
    format_version: str = FORMAT_VERSION

    def to_json(self) -> str:
        """Return the text of `placement.json`: format version first, one op or variable a line."""
        fields = _plain(self)
        fields = {"format_version": fields.pop("format_version"), **fields}
        return (
            "{" + ",\n ".join(f"{json.dumps(key)}: {_value(value)}" for key, value in fields.items()) + "}\n"
        )


def _plain(value: Any) -> Any:
    if attrs.has(type(value)):
        fields = attrs.fields(type(value))
        return {each.metadata.get(NAME, each.name): _plain(getattr(value, each.name)) for each in fields}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _value(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n  " + ",\n  ".join(json.dumps(each) for each in value) + "]"
    return json.dumps(value)
