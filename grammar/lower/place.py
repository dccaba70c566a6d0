"""The blocks `place` and `expect`: rules and conditions with sets of devices."""

from __future__ import annotations

from typing import Any

from dsl import ir, schema, syntax
from dsl.errors import placement, references
from dsl.errors.wording import quoted
from dsl.schema import Type
from dsl.schema import types as kinds
from dsl.schema.placement import Measure, Selector, target_of
from dsl.suggest import nearest
from grammar.lower import blocks, values
from grammar.lower.context import BAD, Context, all_of
from grammar.lower.devices import KINDS, device_set
from grammar.lower.evaluate import described, misplaced_value
from grammar.lower.values import typed

SELECTOR_NAMES = tuple(each.name for each in schema.SELECTORS)
TARGET_NAMES = tuple(dict.fromkeys(each.name for each in schema.TARGETS))


def place(block: syntax.Block, context: Context) -> ir.Place | None:
    """Lower the `place` block; return None if it has errors."""
    rules = all_of(
        blocks.entries(block, "place", syntax.Flow, _rule, "`selector -> target`", context, _advice)
    )
    return None if rules is BAD else ir.Place(rules, span=block.header)


def _advice(item: syntax.Item) -> str | None:
    """Return what to write in place of an item that is no rule, if it looks like one."""
    if isinstance(item, syntax.Attribute):
        return f"write `{item.name} -> ...`"
    is_chain = isinstance(item, syntax.Entry) and isinstance(item.value, syntax.Chain)
    return "between the two stands `->`" if is_chain else None


def _rule(flow: syntax.Flow, context: Context) -> Any:
    if len(flow.steps) > 1:
        return context.refuse(placement.two_targets(flow.steps[1].span))
    if _is_swapped(flow, context):
        return context.refuse(
            placement.swapped_rule(flow.span, what=flow.steps[0].span.text, where=flow.source.span.text)
        )
    selector = _selector(flow.source, context)
    written = flow.steps[0]
    if selector is not BAD and isinstance(written, syntax.Call) and written.callee.name == "sharded":
        over_clones = _is_over_clones(written, context)
        if over_clones or selector.role == "slots":
            return _over_clones(selector, flow, written, context, names_clones=over_clones)
    target = _target(written, context)
    if selector is BAD or target is BAD:
        return BAD
    if not _go_together(selector, target, written, context):
        return BAD
    return ir.Rule(selector, target, span=flow.span)


def _is_swapped(flow: syntax.Flow, context: Context) -> bool:
    """Whether a rule has the devices on the left and the selector on the right."""
    target = flow.steps[0]
    what = target.callee if isinstance(target, syntax.Call) else target
    if not isinstance(what, syntax.Path) or not isinstance(flow.source, syntax.Path):
        return False
    return what.bare in SELECTOR_NAMES and flow.source.segments[0].name in {*KINDS, *context.job_names}


def _is_over_clones(written: syntax.Call, context: Context) -> bool:
    """Whether `sharded(...)` names the clones in place of devices."""
    given = [each.value for each in written.arguments if each.name is None]
    is_word = len(given) == 1 and isinstance(given[0], syntax.Path) and given[0].bare == "clones"
    return is_word and "clones" not in context.job_names


def _over_clones(
    selector: ir.Selector, flow: syntax.Flow, written: syntax.Call, context: Context, *, names_clones: bool
) -> Any:
    """Return the rule `slots -> sharded(clones)`, and report a rule that has only one half of it."""
    keywords = [each for each in written.arguments if each.name is not None]
    if not names_clones:
        context.reports.add(placement.slots_cut_over_devices(written.span))
    elif selector.role == "variables":
        context.reports.add(placement.variables_cut_over_clones(written.span))
    elif selector.role != "slots":
        report = placement.target_not_for(
            written.span, target="sharded(clones)", roles=("slots",), role=selector.role
        )
        context.reports.add(report)
    elif not keywords:
        return ir.Rule(selector, ir.OverClones(span=written.span), span=flow.span)
    for each in keywords if selector.role == "slots" and names_clones else ():
        span = each.name_span or each.span
        context.reports.add(references.unknown_argument("sharded(clones)", str(each.name), span, None, ()))
    return BAD


# --- selectors --------------------------------------------------------------------------------------------


def _selector(written: syntax.Expr, context: Context) -> Any:
    path = written.callee if isinstance(written, syntax.Call) else written
    if not isinstance(path, syntax.Path):
        found = described(path)
        return misplaced_value(written, "a rule", "a selector before the `->`", context, found=found)
    known = schema.selector(path.name) if path.bare is not None else None
    if known is None:
        near = nearest(path.name, SELECTOR_NAMES)
        return context.refuse(
            placement.unknown_selector(path.span, name=path.span.text, near=near, known=SELECTOR_NAMES)
        )
    pattern = _pattern(written, known, context)
    return BAD if pattern is BAD else ir.Selector(known.name, pattern, span=written.span)  # type: ignore[arg-type] # one of SELECTORS


def _pattern(written: syntax.Expr, known: Selector, context: Context) -> Any:
    if not isinstance(written, syntax.Call):
        if known.pattern == "required":
            return context.refuse(placement.glob_missing(written.span, name=known.name))
        return None
    call = values.bound(written, known.function, context)
    if call is BAD:
        return BAD
    given = (*call.args, *call.kwargs.values())
    return given[0] if given else None


# --- targets ----------------------------------------------------------------------------------------------


def _target(written: syntax.Expr, context: Context) -> Any:
    if isinstance(written, syntax.Call):
        return _target_call(written, context)
    if isinstance(written, syntax.Path):
        head = written.segments[0]
        if written.bare == "replicated":
            return ir.Replicated(span=written.span)
        if head.name == "group" and len(written.segments) == 1 and "group" not in context.job_names:
            return _member(written, context)
        if written.bare in TARGET_NAMES:
            return context.refuse(
                placement.target_needs_devices(
                    written.span, name=written.name, groups=written.bare == "groups"
                )
            )
        if (
            head.name not in {*KINDS, *context.job_names}
            and not context.is_silent(head.name)
            and context.jobs is not None
        ):
            known = (*KINDS, *sorted(context.job_names), *TARGET_NAMES)
            near = nearest(head.name, known)
            return context.refuse(
                placement.no_such_device(
                    head.name_span, name=head.name, near=near, known=(*KINDS, *sorted(context.job_names))
                )
            )
    return device_set(written, context)


def _member(written: syntax.Path, context: Context) -> Any:
    index = written.segments[0].index
    if index is None or isinstance(index, (syntax.Every, syntax.Range)):
        return context.refuse(
            placement.index_missing(written.span, name="group", what="a device of the group")
        )
    value = typed(index, kinds.integer(0), "the index of `group`", context)
    return BAD if value is BAD else ir.GroupMember(value, span=written.span)


def _target_call(call: syntax.Call, context: Context) -> Any:
    name = call.callee.name
    known = schema.target(name)
    if known is None or known.shape in {"word", "member"}:
        return context.refuse(references.unknown_function("target", name, call.callee.span, TARGET_NAMES))
    positional = [each for each in call.arguments if each.name is None]
    keywords = [each for each in call.arguments if each.name is not None]
    if any(isinstance(each.value, syntax.Broken) for each in call.arguments):
        return BAD
    if len(positional) != 1:
        return context.refuse(
            placement.too_many_device_sets(
                positional[1].value.span,
                name=name,
                given=len(positional),
                named={"sharded": "axis = 1", "groups": "size = 2"}.get(name),
                groups=name == "groups",
            )
            if positional
            else placement.target_needs_devices(call.callee.span, name=name, groups=name == "groups")
        )
    devices = _devices_of(name, positional[0].value, context)
    for each in () if known.arguments else keywords:
        context.reports.add(
            references.unknown_argument(name, str(each.name), each.name_span or each.span, None, ("set",))
        )
    if not known.arguments:
        return BAD if devices is BAD or keywords else known.record(devices, span=call.span)
    named = syntax.Call(call.callee, tuple(keywords), span=call.span)
    bound = values.bound(named, schema.Function(name, known.arguments), context)
    if devices is BAD or bound is BAD:
        return BAD
    spans = {"spans": bound.kwarg_spans} if known.record is ir.Sharded else {}
    return known.record(devices, **bound.kwargs, **spans, span=call.span)


def _devices_of(name: str, written: syntax.Expr, context: Context) -> Any:
    if (
        isinstance(written, syntax.Path)
        and written.bare in TARGET_NAMES
        and written.bare not in context.job_names
    ):
        return context.refuse(placement.target_inside(written.span, outer=name, inner=written.name))
    return device_set(written, context)


def _go_together(selector: ir.Selector, target: Any, written: syntax.Expr, context: Context) -> bool:
    """Return whether a target can be used with a selector, and report it if it cannot."""
    known = target_of(target)
    if known is None or selector.role in known.roles:
        return True
    context.reports.add(
        placement.target_not_for(written.span, target=known.name, roles=known.roles, role=selector.role)
    )
    return False


# --- expect -----------------------------------------------------------------------------------------------

MEASURE_NAMES = tuple(each.name for each in schema.MEASURES)


def expect(block: syntax.Block, context: Context) -> ir.Expect | None:
    """Lower the `expect` block; return None if it has errors."""

    def advice(item: syntax.Item) -> str | None:
        is_attribute = isinstance(item, syntax.Attribute)
        return "a condition compares with `==`, not `=`" if is_attribute else None

    takes = "a comparison such as `memory(gpu[*]) <= 14GiB`"
    conditions = all_of(
        blocks.entries(block, "expect", syntax.Comparison, _condition, takes, context, advice, whole=True)
    )
    return None if conditions is BAD else ir.Expect(conditions, span=block.header)


def _condition(written: syntax.Comparison, context: Context) -> Any:
    call = written.left
    if isinstance(call, syntax.Path) and call.bare is not None:  # a measure without arguments, or a mistake
        call = syntax.Call(call, (), span=call.span)
    if not isinstance(call, syntax.Call):
        return misplaced_value(call, "the left side", "a measure such as `memory(gpu[*])`", context)
    measure = schema.measure(call.callee.name)
    if measure is None:
        name = call.callee.name
        span = call.callee.span
        return context.refuse(references.unknown_function("measure", name, span, MEASURE_NAMES, listed=True))
    arguments = _arguments(call, measure.arguments, context)
    value = typed(written.right, _figure(measure), f"`{measure.name}`", context)
    if arguments is BAD or value is BAD:
        return BAD
    return ir.Condition(
        measure.name,  # type: ignore[arg-type] # one of MEASURES
        arguments,
        written.operator,  # type: ignore[arg-type] # the grammar's comparisons
        value,
        written.span.text,
        span=written.span,
    )


def _figure(measure: Measure) -> Type:
    """Return the type of the figures with which a measure can be compared: those that it can be."""
    if measure.dimension is None:
        return kinds.integer(0)
    return Type(
        "quantity", dimension=measure.dimension, low=0, high=measure.most, open=not measure.can_be_zero
    )


def _arguments(call: syntax.Call, wanted: tuple[str, ...], context: Context) -> Any:
    if any(isinstance(each.value, syntax.Broken) for each in call.arguments):
        return BAD
    if len(call.arguments) != len(wanted) or any(each.name is not None for each in call.arguments):
        said = {"devices": "devices", "glob": "a glob on the names of ops"}
        takes = [said.get(each, quoted(each)) for each in wanted]
        return context.refuse(placement.measure_arguments(call.span, name=call.callee.name, takes=takes))
    given = zip(call.arguments, wanted, strict=True)
    return all_of([_argument(each.value, kind, context) for each, kind in given])


def _argument(written: syntax.Expr, kind: str, context: Context) -> Any:
    if kind == "devices":
        return device_set(written, context)
    if kind == "glob":
        return typed(written, kinds.string(), "the name of the ops", context)
    return typed(written, kinds.word(kind), "the argument", context)
