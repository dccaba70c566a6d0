"""TFD6xx: warnings of what is allowed but probably a mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics import Diagnostic, Label
from dsl.errors.making import replacing, warning
from dsl.errors.meaning.names import similar
from dsl.errors.words import alternatives, counted, listed, options, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.source import Span

_SHOWN = 6


def unused_binding(name: str, span: Span) -> Diagnostic:
    """A binding that goes nowhere.

    Args:
        name: The name of the binding.
        span: The place of the name in the spec.
    """
    return warning(
        "TFD601",
        f"nothing uses {quoted(name)}",
        span,
        text="goes into no loss, metric, output or other binding",
        help="remove it, or use it",
    )


def unused_output(name: str, span: Span) -> Diagnostic:
    """Report one of several outputs of a step that goes nowhere.

    Args:
        name: The name of the output.
        span: The place of the name in the spec.
    """
    return warning(
        "TFD601",
        f"nothing uses {quoted(name)}",
        span,
        text="goes into no loss, metric, output or other binding",
        help="write `_` in its place",
    )


def unused_constant(name: str, span: Span) -> Diagnostic:
    """A constant that nothing uses.

    Args:
        name: The name of the constant.
        span: The place of the name in the spec.
    """
    return warning(
        "TFD602",
        f"nothing uses the constant {quoted(name)}",
        span,
        text="unused",
        help="remove it, or use it",
    )


def unused_gpus(names: Sequence[str], of: int, span: Span) -> Diagnostic:
    """GPUs without anything on them.

    Args:
        names: The GPUs with nothing on them.
        of: The number of all GPUs.
        span: The place of the declaration of the GPUs in the spec.
    """
    shown = listed(names[:_SHOWN]) + (" and others" if len(names) > _SHOWN else "")
    return warning(
        "TFD603",
        f"nothing is placed on {len(names)} of {counted(of, 'GPU')}"
        if of > 1
        else "nothing is placed on the GPU",
        span,
        text="declared here",
        notes=(f"idle: {shown}",),
        help="raise `clones.count`, place something there, or declare fewer",
    )


def uneven_clones(count: int, places: int, size: int, span: Span) -> Diagnostic:
    """More clones than devices, and not a multiple of them.

    Args:
        count: The number of clones.
        places: The number of devices for clones, or of groups of devices.
        size: The number of devices of a clone.
        span: The place of the number of clones in the spec.
    """
    less, more = count // places, count // places + 1
    what = "device" if size == 1 else "group"
    return warning(
        "TFD607",
        f"{count} clones on {counted(places, what)}: some have {more}, others {less}",
        span,
        text=f"{count % places} of {places} {what}s with {counted(more, 'clone')}",
        notes=("each step waits for the device with the most work",),
        help=f"use {count - count % places} or {count - count % places + places} clones, or other devices",
    )


def devices_without_clones(names: Sequence[str], of: int, rule: Span | None, span: Span) -> Diagnostic:
    """Devices that the rule for clones names and that no clone is left for.

    Args:
        names: The devices without a clone.
        of: The number of all devices for clones.
        rule: The place of the rule for clones; None if the default decides.
        span: The place of the number of clones in the spec.
    """
    return warning(
        "TFD608",
        f"{len(names)} of {counted(of, 'device')} for clones {'has' if len(names) == 1 else 'have'} no clone",
        span,
        text="fewer clones than devices",
        labels=() if rule is None else (Label(rule, "more devices than clones"),),
        notes=(f"without a clone: {alternatives(names)}",),
        help="raise `clones.count`, or give the clones fewer devices",
    )


def ineffective_rule(span: Span, later: Span) -> Diagnostic:
    """A rule that a later one overrules.

    Args:
        span: The place of the rule in the spec.
        later: The place of the rule that overrules it.
    """
    return warning(
        "TFD604",
        "this rule never decides anything",
        span,
        text="always overruled",
        labels=(Label(later, "the last rule that matches wins, and this one always matches"),),
        help="remove it, or put the more special rule last",
    )


def rule_without_sums(span: Span, reason: str, copies: Span | None = None) -> Diagnostic:
    """A rule for updates that has no sums of gradients to place.

    Args:
        span: The place of the rule in the spec.
        reason: Why there are none, as a sentence.
        copies: The place of the rule that gives each clone a copy of every variable; None if that is not why.
    """
    return warning(
        "TFD604",
        "this rule never decides anything",
        span,
        text="no gradients are summed there",
        labels=() if copies is None else (Label(copies, "every clone has its own copy"),),
        notes=(reason,),
        help="remove it",
    )


def rule_without_things(span: Span, reason: str) -> Diagnostic:
    """A rule that is the reason for the place of nothing.

    Args:
        span: The place of the rule in the spec.
        reason: Why there is nothing, as a sentence.
    """
    return warning(
        "TFD604",
        "this rule never decides anything",
        span,
        text="nothing is placed by it",
        notes=(reason,),
        help="remove it",
    )


def unused_layer(name: str, span: Span) -> Diagnostic:
    """A `layer` block that nothing uses.

    Args:
        name: The name of the block.
        span: The place of the name in the spec.
    """
    return warning(
        "TFD605", f"nothing uses the layer {quoted(name)}", span, text="unused", help="remove it, or use it"
    )


def unknown_lint(name: str, span: Span, near: str | None, known: Sequence[str]) -> Diagnostic:
    """`# tfdeploy: allow(...)` of something that is no lint.

    Args:
        name: The name as it is written.
        span: The place of the name in the spec.
        near: The known name that is probably meant; None if none is similar.
        known: The names of all lints.
    """
    return warning(
        "TFD606",
        f"there is no lint {quoted(name)}",
        span,
        text="unknown lint",
        notes=similar("lint", near) or options("the lints are", known, name),
        fix=replacing(f"write {quoted(near)}", span, near) if near else None,
    )
