"""The `devices` block, and sets of devices in other blocks."""

from __future__ import annotations

from typing import Any

from dsl import ir, syntax
from dsl.errors import names, placement, types
from dsl.schema import BLOCKS
from dsl.schema import types as kinds
from dsl.source import Span
from grammar.lower import blocks
from grammar.lower.context import BAD, Context
from grammar.lower.evaluate import misplaced_value
from grammar.lower.values import ends, typed

LONGEST_RANGE = 100_000
KINDS = ("gpu", "cpu")


def devices(block: syntax.Block, context: Context) -> ir.Devices | None:
    """Lower the `devices` block; return None if it has errors."""
    fields = blocks.Fields()
    jobs: list[ir.Job | None] = []
    first: dict[str, Span] = {}
    known = BLOCKS["devices"]
    for item in blocks.own_items(block, known, fields, context):
        if isinstance(item, syntax.Attribute):
            blocks.attribute(item, known, fields, context)
        elif isinstance(item, syntax.Block):
            if item.label_span is not None and item.label is not None:
                blocks.once(item.label, item.label_span, first, "job", context)
            jobs.append(_job(item, context))
    if fields.bad or any(job is None for job in jobs):
        return None
    made = tuple(job for job in jobs if job is not None)
    return ir.Devices(**fields.values, jobs=made, span=block.header, spans=fields.spans)


def _job(block: syntax.Block, context: Context) -> ir.Job | None:
    known = BLOCKS["job"]
    fields = blocks.attributes(block, known, context)
    if block.label in KINDS and block.label_span is not None:
        context.reports.add(
            names.reserved(block.label_span, name=block.label, why="this is a kind of device")
        )
    if fields.bad or block.label is None:
        return None
    values = dict(fields.values)
    if values.get("hosts"):
        values["tasks"] = len(values["hosts"])
    if isinstance(values.get("tasks"), tuple):
        least, values["tasks"] = values["tasks"]
        values["least"] = least if least < values["tasks"] else None
    return ir.Job(block.label, **values, span=block.header, spans=fields.spans)


# --- names of devices -------------------------------------------------------------------------------------


def device_set(written: syntax.Expr, context: Context) -> Any:
    """Lower an expression that names devices."""
    items = written.items if isinstance(written, syntax.List) else (written,)
    if not items:
        return misplaced_value(written, "a placement", "devices", context, found="an empty list")
    patterns = [_pattern(item, context) for item in items]
    context.notes.patterns.extend(each for each in patterns if each is not BAD)
    return BAD if any(each is BAD for each in patterns) else ir.DeviceSet(tuple(patterns), span=written.span)


def _pattern(  # noqa: PLR0911 one for each kind of name
    written: syntax.Expr, context: Context
) -> Any:
    if not isinstance(written, syntax.Path):
        return misplaced_value(written, "this place", "devices such as `gpu[0]`", context)
    head, *rest = written.segments
    if head.name in KINDS and not rest:
        return _device(written, head, None, None, context)
    if head.name in KINDS or (context.jobs is not None and head.name not in context.jobs):
        return _unknown(written, head, context)
    tasks = _indices(head, "a task", context)
    if tasks is BAD:
        return BAD
    if not rest:
        return ir.DevicePattern("cpu", (0,), head.name, tasks, span=written.span)
    if len(rest) > 1 or rest[0].name not in KINDS:
        strange = rest[0] if rest[0].name not in KINDS else rest[1]
        return context.refuse(placement.no_such_device(strange.name_span, name=strange.name, known=KINDS))
    return _device(written, rest[0], head.name, tasks, context)


def _device(
    written: syntax.Path,
    segment: syntax.Segment,
    job: str | None,
    tasks: tuple[int, ...] | None,
    context: Context,
) -> Any:
    indices = _indices(segment, "a device", context)
    if indices is BAD:
        return BAD
    kind = "gpu" if segment.name == "gpu" else "cpu"
    return ir.DevicePattern(kind, indices, job, tasks, span=written.span)  # type: ignore[arg-type] # mypy widens the words


def _indices(segment: syntax.Segment, what: str, context: Context) -> Any:
    """Return the indices in the brackets of a segment, or None for all."""
    match segment.index:
        case None:
            return context.refuse(placement.index_missing(segment.span, name=segment.name, what=what))
        case syntax.Every():
            return None
        case syntax.Range():
            return _range(segment.index, context)
    value = typed(segment.index, kinds.integer(0), f"the index of `{segment.name}`", context)
    return BAD if value is BAD else (value,)


def _range(written: syntax.Range, context: Context) -> Any:
    found = ends(written, 0, None, context)
    if found is BAD:
        return BAD
    first, last = found
    if last - first >= LONGEST_RANGE:
        return context.refuse(types.range_too_long(written.span, longest=LONGEST_RANGE))
    return tuple(range(first, last + 1))


def _unknown(written: syntax.Path, head: syntax.Segment, context: Context) -> Any:
    if context.may_exist("job") or context.is_silent(head.name):
        return BAD
    if head.name in KINDS:
        return context.refuse(placement.segment_after_device(written.segments[1].span, kind=head.name))
    known = (*KINDS, *sorted(context.job_names))
    return context.refuse(placement.no_such_device(head.name_span, name=head.name, known=known))
