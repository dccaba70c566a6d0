"""The forecast of the time of a step, as a part of the placement map."""

from __future__ import annotations

from attrs import field, frozen

from dsl.files.typed_json import NAME, Count


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
    """

    seconds: float
    estimate: bool
    measured: float
    source: str
    devices: tuple[DeviceTime, ...]
    links: tuple[LinkTime, ...]
    by_scope: tuple[MapPathPart, ...]
    by_rule: tuple[MapPathPart, ...]
