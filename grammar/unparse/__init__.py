"""Writes the IR as text: a spec with includes, constants, overrides and defaults filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl import ir, schema
from dsl.schema import types as kinds
from dsl.source import Source
from grammar.format import format_text
from grammar.unparse.expressions import block, layer, model, plain, quantity, quoted, value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dsl.ir import Spec


def unparse(spec: Spec) -> str:
    """Return a spec as text in the uniform style. Reading the text gives an equal IR."""
    return format_text(Source(spec.path or "<spec>", "\n\n".join(_blocks(spec)) + "\n"))


# --- the text of all blocks, defaults included ------------------------------------------------------------


def _blocks(spec: ir.Spec) -> Iterator[str]:
    """Yield the text of each block, before it is formatted."""
    yield f"tfdeploy = {spec.version}"
    for each in spec.layers:
        yield layer(each)
    yield model(spec.model)
    if spec.data is not None:
        yield _data(spec.data)
    yield _attributes("devices", spec.devices, [_job(job) for job in spec.devices.jobs])
    clones = _attributes("clones", spec.clones)
    if clones:
        yield clones
    if spec.place.rules:
        yield block(
            "place", [f"{_selector(each.selector)} -> {_target(each.target)}" for each in spec.place.rules]
        )
    groups = [
        f"{quoted(each.pattern)} -> {value(each.optimizer, kinds.keras('optimizer'))}"
        for each in spec.update.groups
    ]
    yield _attributes("update", spec.update, [block("optimizer", groups)] if groups else [])
    yield _attributes("train", spec.train, _part_weights(spec.train))
    if spec.expect.conditions:
        yield block("expect", [_condition(each) for each in spec.expect.conditions])


def _attributes(name: str, of: ir.Block, more: Sequence[str] = ()) -> str:
    """Return the text of a block whose attributes are fields of its record, without empty ones."""
    lines = []
    for row in schema.BLOCKS[name].attributes:
        given = getattr(of, row.name)
        if isinstance(given, ir.Every):
            lines.append(f"{row.name} = {_period(given)}")
        elif given is not None or row.type.optional:
            lines.append(f"{row.name} = {value(given, row.type)}")
    lines += more
    return block(name, lines) if lines else ""


def _period(given: ir.Every) -> str:
    return plain(given.steps) if given.seconds is None else quantity(given.seconds, "seconds")


def _data(given: ir.Data) -> str:
    lines = []
    for split in (given.train, given.validation, given.test):
        if split is not None:
            source = value(split.source, kinds.call("source"))
            steps = (f"\n-> {value(each, kinds.call('transform'))}" for each in split.transforms)
            lines.append(f"{split.name} = {source}{''.join(steps)}")
    lines.append(f"per_clone = {given.per_clone}")
    return block("data", lines)


def _part_weights(given: ir.Train) -> list[str]:
    rules = [f"{quoted(each.pattern)} -> {quoted(each.file)}" for each in given.part_weights]
    return [block("weights", rules)] if rules else []


def _job(given: ir.Job) -> str:
    tasks = f"hosts = {value(given.hosts)}" if given.hosts else f"tasks = {given.tasks}"
    return block(f"job {quoted(given.name)}", [tasks, f"gpu = {given.gpu}", f"cpu = {given.cpu}"])


# --- place ------------------------------------------------------------------------------------------------


def _selector(given: ir.Selector) -> str:
    return given.role if given.pattern is None else f"{given.role}({quoted(given.pattern)})"


def _target(given: ir.Target) -> str:
    match given:
        case ir.Balanced():
            written = f"balanced({_devices(given.devices)})"
        case ir.RoundRobin():
            written = f"round_robin({_devices(given.devices)})"
        case ir.Sharded():
            size = quantity(given.min_size, "bytes")
            written = f"sharded({_devices(given.devices)}, axis = {given.axis}, min_size = {size})"
        case ir.OverClones():
            written = "sharded(clones)"
        case ir.Replicated():
            written = "replicated"
        case ir.Groups():
            written = f"groups({_devices(given.devices)}, size = {given.size})"
        case ir.GroupMember():
            written = f"group[{given.index}]"
        case ir.DeviceSet():
            written = _devices(given)
    return written


def _devices(given: ir.DeviceSet) -> str:
    """Return the text of a set of devices, as a list if it has several patterns."""
    patterns = [_pattern(each) for each in given.patterns]
    return patterns[0] if len(patterns) == 1 else f"[{', '.join(patterns)}]"


def _pattern(given: ir.DevicePattern) -> str:
    device = f"{given.kind}[{_indices(given.indices)}]"
    return device if given.job is None else f"{given.job}[{_indices(given.tasks)}].{device}"


def _indices(given: tuple[int, ...] | None) -> str:
    if given is None:
        return "*"
    return str(given[0]) if len(given) == 1 else f"{given[0]}..{given[-1]}"


# --- expect -----------------------------------------------------------------------------------------------


def _condition(given: ir.Condition) -> str:
    measure = schema.measure(given.function)
    kinds_ = () if measure is None else measure.arguments
    arguments = []
    for argument, kind in zip(given.arguments, kinds_, strict=True):
        if isinstance(argument, ir.DeviceSet):
            arguments.append(_devices(argument))
        else:
            arguments.append(quoted(argument) if kind == "glob" else argument)
    dimension = None if measure is None else measure.dimension
    figure = plain(given.value) if dimension is None else quantity(given.value, dimension)
    brackets = f"({', '.join(arguments)})" if arguments else ""
    return f"{given.function}{brackets} {given.operator} {figure}"
