"""The shapes of JSON outputs that the tool writes without a record of their own, as records.

`check --format json` is written without cattrs, so that `check` starts quickly, and so is `diff --json`.
Tests compare these records with what is really written.
"""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from compiler.mapping.records import MapMode, MapSpec
from dsl.files.typed_json import NAME, Count


@frozen
class Position:
    """A place in a file.

    Attributes:
        line: The line, from 1.
        column: The column in characters, from 1.
        offset: The number of characters before it in the file.
    """

    line: Count
    column: Count
    offset: Count


@frozen
class Range:
    """A part of a file.

    Attributes:
        start: Its first place.
        end: The first place that is not part of it.
    """

    start: Position
    end: Position


@frozen
class Label:
    """A further place of a message.

    Attributes:
        path: The file.
        range: The part of it.
        text: What there is to see.
    """

    path: str | None
    range: Range | None
    text: str


@frozen
class Edit:
    """One replacement of a fix.

    Attributes:
        path: The file.
        range: The part that is replaced.
        replacement: The new text.
    """

    path: str | None
    range: Range | None
    replacement: str


@frozen
class Fix:
    """Replacements that belong together.

    Attributes:
        title: What they do.
        applicability: Whether they keep the meaning of a correct spec (`safe`).
        edits: The replacements.
    """

    title: str
    applicability: Literal["safe", "unsafe"]
    edits: tuple[Edit, ...]


@frozen
class Message:
    """An error or a warning.

    Attributes:
        severity: Which of the two it is. Only an error makes a spec invalid.
        code: Its code, such as TFD402.
        name: The name of the code.
        message: What is wrong, in a sentence.
        path: The file; null if it is about no file.
        range: The part of the file.
        text: What stands at the place as a label.
        labels: Further places.
        notes: Further sentences.
        help: What to do.
        fix: A correction that can be applied as it is.
    """

    severity: Literal["error", "warning"]
    code: str
    name: str
    message: str
    path: str | None
    range: Range | None
    text: str | None
    labels: tuple[Label, ...]
    notes: tuple[str, ...]
    help: str | None
    fix: Fix | None


@frozen
class Messages:
    """What `check --format json` prints.

    Attributes:
        format_version: The version of the format.
        valid: Whether there are no errors.
        error_count: The number of errors, also of those that are not listed.
        warning_count: The number of warnings.
        diagnostics: The messages.
    """

    format_version: str
    valid: bool
    error_count: Count
    warning_count: Count
    diagnostics: tuple[Message, ...]


@frozen
class Side:
    """One of the placements that are compared.

    Attributes:
        spec: Its spec.
        mode: Its modes, such as the aggregation.
    """

    spec: MapSpec
    mode: MapMode


@frozen
class MovedOp:
    """An op that has another device, or is in one of the placements only.

    Attributes:
        name: Its name, without the scope of its clone.
        clone: The number of its clone; null if it has none.
        before: Its device in the first placement; null if it is not there.
        after: The same for the second placement.
    """

    name: str
    clone: Count | None
    before: str | None
    after: str | None


@frozen
class VariableCut:
    """How a variable is cut into pieces.

    Attributes:
        axis: The axis along which it is cut.
        starts: The index along the axis at which each piece begins.
    """

    axis: Count
    starts: tuple[Count, ...]


@frozen
class MovedVariable:
    """A variable that has other devices or is cut otherwise, or is in one of the placements only.

    Attributes:
        name: Its name.
        bytes: Its size.
        before: The devices of its copies or pieces in the first placement; null if it is not there.
        after: The same for the second placement.
        cut_before: How the first placement cuts it; null if it is whole or not there.
        cut_after: The same for the second placement.
    """

    name: str
    bytes: Count
    before: tuple[str, ...] | None
    after: tuple[str, ...] | None
    cut_before: VariableCut | None
    cut_after: VariableCut | None


@frozen
class DeviceTotals:
    """What is on a device, and what a step sends to it and from it.

    Attributes:
        ops: The number of ops.
        variable_bytes: The bytes of variables.
        slot_bytes: The bytes of slots.
        memory_bytes: The forecast of its peak in a step, in bytes; null if there is none.
        bytes_in: The bytes that a step sends to the device.
        bytes_out: The bytes that a step sends from the device.
        busy: The share of the step in which it is busy, from 0 to 1; null without a forecast of time.
    """

    ops: Count
    variable_bytes: Count
    slot_bytes: Count
    memory_bytes: Count | None
    bytes_in: Count
    bytes_out: Count
    busy: float | None


@frozen
class ChangedDevice:
    """A device of which something differs.

    Attributes:
        ref: Its name in specs.
        before: What was on it; null if the first placement does not have it.
        after: What is on it; null if the second placement does not have it.
    """

    ref: str
    before: DeviceTotals | None
    after: DeviceTotals | None


@frozen
class LinkTotals:
    """What a step sends between two devices.

    Attributes:
        tensors: The number of tensors.
        bytes: The bytes of those whose size is known.
        bytes_unknown: The number of those whose size is unknown.
    """

    tensors: Count
    bytes: Count
    bytes_unknown: Count


@frozen
class ChangedLink:
    """Two devices between which a step sends something else.

    Attributes:
        from_device: The name of the device that sends.
        to_device: The name of the device that receives.
        before: What was sent; null if nothing was.
        after: What is sent; null if nothing is.
    """

    from_device: str = field(metadata={NAME: "from"})
    to_device: str = field(metadata={NAME: "to"})
    before: LinkTotals | None
    after: LinkTotals | None


@frozen
class ChangedLinkTime:
    """A link whose time differs.

    Attributes:
        from_device: The name of the device that sends.
        to_device: The name of the device that receives.
        before: The seconds of a step in which it carried something in the first placement.
        after: The seconds of a step in which it carries something in the second placement.
    """

    from_device: str = field(metadata={NAME: "from"})
    to_device: str = field(metadata={NAME: "to"})
    before: float
    after: float


@frozen
class ChangedTime:
    """The forecast time of a step.

    Attributes:
        before: That of the first placement in seconds.
        after: That of the second placement.
        estimate: Whether one of them is by the table of hardware instead of measured ops.
        links: The links that take another time.
    """

    before: float
    after: float
    estimate: bool
    links: tuple[ChangedLinkTime, ...]


@frozen
class Differences:
    """What `diff --json` prints.

    Attributes:
        format_version: The version of the format.
        different: Whether there is any difference.
        before: The first placement.
        after: The second placement.
        ops: The ops that differ.
        variables: The variables that differ.
        devices: The devices that differ.
        links: The links between devices that differ.
        time: How long a step takes; null unless both placements have a forecast of that.
    """

    format_version: str
    different: bool
    before: Side
    after: Side
    ops: tuple[MovedOp, ...]
    variables: tuple[MovedVariable, ...]
    devices: tuple[ChangedDevice, ...]
    links: tuple[ChangedLink, ...]
    time: ChangedTime | None


@frozen
class TraceEvent:
    """An event in the format of Chrome's trace viewer; further fields depend on its kind.

    Attributes:
        name: What has happened.
        ph: The kind of event: `X` for an op with its duration, `M` for the name of a track, and others.
        pid: The number of the device's track.
        tid: The number of the row in the track.
        ts: When it began, in microseconds.
        dur: How long it has taken, in microseconds.
        args: The op and its inputs.
    """

    name: str
    ph: str
    pid: int
    tid: int = 0
    ts: int = 0
    dur: int = 0
    args: Any = None


@frozen
class Trace:
    """`trace.json`, the times of every op of some steps.

    Attributes:
        trace_events: The events, in Chrome's format.
    """

    trace_events: tuple[TraceEvent, ...] = field(metadata={NAME: "traceEvents"})
