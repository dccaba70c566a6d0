"""TFD2xx and TFD4xx: errors in devices, placement rules and conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics import Diagnostic, Label
from dsl.errors.making import error, replacing
from dsl.errors.meaning.names import similar
from dsl.errors.words import counted, joined, listed, options, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dsl.source import Span


def no_such_index(
    name: str,
    noun: str,
    index: int,
    count: int,
    span: Span,
    declared: Span | None,
    *,
    attribute: str,
    in_range: bool,
) -> Diagnostic:
    """An index beyond the devices or tasks that there are.

    Args:
        name: The name of the device or task, such as `gpu[4]`.
        noun: What is counted, such as `GPU`.
        index: The index.
        count: How many there are, at least 1.
        span: The place of the name.
        declared: The place where their number is declared, or None.
        attribute: The attribute that gives their number.
        in_range: Whether the index is the end of a range.
    """
    there = f"only {counted(count, noun)} {'is' if count == 1 else 'are'} declared"
    there += " (number 0)" if count == 1 else f" (0..{count - 1})"
    near = (
        f"`0..{count - 1}`"
        if in_range and count > 1
        else "0"
        if count == 1
        else f"a number from 0 to {count - 1}"
    )
    return error(
        "TFD402",
        f"{quoted(name)} does not exist",
        span,
        text=f"index {index}",
        labels=() if declared is None else (Label(declared, there),),
        notes=(*(("ranges include both ends",) if in_range else ()), *(() if declared else (there,))),
        help=f"use {near}, or raise `{attribute}` to {index + 1}",
    )


def no_such_device(name: str, span: Span, near: str | None, known: Iterable[str]) -> Diagnostic:
    """A device or job that is not declared.

    Args:
        name: The name as it is written.
        span: The place of the name in the spec.
        near: The known name that is probably meant; None if none is similar.
        known: The names of the devices and jobs that are declared.
    """
    known = tuple(known)
    return error(
        "TFD402",
        f"{quoted(name)} is no device of this spec",
        span,
        text="unknown device",
        notes=similar("device", near) or options("the devices are called", known, name),
        fix=replacing(f"write {quoted(near)}", span, near) if near else None,
    )


def none_declared(kind: str, span: Span, at: Span | None) -> Diagnostic:
    """A kind of device of which the spec declares none.

    Args:
        kind: `cpu` or `gpu`.
        span: The place at which a device of that kind is named.
        at: The place at which the number of these devices is declared; None if it is not declared.
    """
    return error(
        "TFD402",
        f"the spec declares no {kind.upper()}",
        span,
        text="there is none",
        labels=() if at is None else (Label(at, "the devices are declared here"),),
        help=f"declare `{kind} = ...` in `devices`, or place this elsewhere",
    )


def index_missing(name: str, what: str, span: Span) -> Diagnostic:
    """`gpu` in place of `gpu[0]`.

    Args:
        name: The name of the device or job, without an index.
        what: Whose number is missing, for the message.
        span: The place of the name in the spec.
    """
    return error(
        "TFD408",
        f"{quoted(name)} needs the number of {what}",
        span,
        text="expected `[` after this",
        help=f"write `{name}[0]`, a range such as `{name}[0..3]`, or `{name}[*]` for all",
    )


def segment_after_device(span: Span, kind: str) -> Diagnostic:
    """A part behind a device: `gpu[0].cpu[1]`.

    Args:
        span: The place of the part in the spec.
        kind: `cpu` or `gpu`.
    """
    return error("TFD402", f"a {kind} has no parts", span, text="expected nothing more")


def swapped_rule(what: str, where: str, span: Span) -> Diagnostic:
    """`cpu[0] -> variables`.

    Args:
        what: The selector, as it is written.
        where: The target, as it is written.
        span: The place of the rule in the spec.
    """
    return error(
        "TFD205",
        "this rule has its sides the wrong way round",
        span,
        text="expected `selector -> target`",
        help=f"write `{what} -> {where}`",
        fix=replacing("swap the sides", span, f"{what} -> {where}"),
    )


def two_targets(span: Span) -> Diagnostic:
    """`clones -> gpu[0] -> gpu[1]`."""
    return error(
        "TFD205",
        "a rule has one target",
        span,
        text="a second one",
        help="write two rules, or a list `[a, b]`",
    )


def one_device_only(role: str, count: int, span: Span | None) -> Diagnostic:
    """A rule that gives several devices to what runs on one.

    Args:
        role: What the rule places, such as `global_step`.
        count: The number of devices that it names.
        span: The place of the target in the spec; None if it is not known.
    """
    return error(
        "TFD412",
        f"{quoted(role)} is in one place, and {counted(count, 'device')} are named",
        span,
        text="expected one device",
        help="name the one device to use, as in `cpu[0]`",
    )


def unknown_selector(name: str, span: Span, near: str | None, known: Sequence[str]) -> Diagnostic:
    """A rule for what there is not.

    Args:
        name: The name as it is written.
        span: The place of the name in the spec.
        near: The known name that is probably meant; None if none is similar.
        known: The names of all selectors.
    """
    return error(
        "TFD404",
        f"there is no selector {quoted(name)}",
        span,
        text="unknown selector",
        notes=similar("selector", near) or options("the selectors are", known, name),
        fix=replacing(f"write {quoted(near)}", span, near) if near else None,
    )


def glob_missing(name: str, span: Span) -> Diagnostic:
    """A selector without the glob that it needs: `ops -> gpu[0]`.

    Args:
        name: The name of the selector.
        span: The place of the selector in the spec.
    """
    return error(
        "TFD406",
        f"{quoted(name)} needs a glob",
        span,
        text='expected `("...")` after this',
        help=f'write it as in `{name}("conv1/*")`',
    )


def target_needs_devices(name: str, span: Span) -> Diagnostic:
    """A target such as `balanced` without its devices.

    Args:
        name: The name of the target.
        span: The place of the target in the spec.
    """
    sample = "groups(gpu[*], size = 2)" if name == "groups" else f"{name}(ps[*])"
    return error(
        "TFD406",
        f"{quoted(name)} needs one set of devices",
        span,
        text="expected devices in brackets after this",
        help=f"write it as in `{sample}`",
    )


def too_many_device_sets(name: str, given: int, span: Span) -> Diagnostic:
    """`sharded(ps[0], ps[1])`.

    Args:
        name: The name of the target.
        given: The number of arguments without names.
        span: The place of the first one that is too many in the spec.
    """
    named = {"sharded": "axis = 1", "groups": "size = 2"}.get(name)
    size = ", size = 2" if name == "groups" else ""
    return error(
        "TFD405",
        f"{quoted(name)} takes one set of devices, and {given} are given",
        span,
        text="one too many",
        notes=() if named is None else (f"its other arguments have names, as in `{named}`",),
        help=f"write several devices as one set, as in `{name}([ps[0], ps[1]]{size})`",
    )


def target_inside(outer: str, inner: str, span: Span) -> Diagnostic:
    """A target in place of the devices of another, as in `sharded(replicated)`.

    Args:
        outer: The name of the target that takes devices.
        inner: The name of the target that is written in place of them.
        span: The place of the inner target in the spec.
    """
    return error(
        "TFD408",
        f"`{inner}` is no set of devices",
        span,
        text=f"expected the devices of `{outer}`",
        notes=(f"`{outer}` and `{inner}` are two ways of placing, and a rule has one",),
        help=f"write it as in `{outer}(cpu[*])`",
    )


def target_not_for(target: str, roles: Sequence[str], role: str, span: Span) -> Diagnostic:
    """A target that the selector cannot have.

    Args:
        target: The name of the target.
        roles: The selectors that can have it.
        role: The selector of the rule.
        span: The place of the target in the spec.
    """
    return error(
        "TFD408",
        f"`{target}` is no target for `{role}`",
        span,
        text=f"this is a target for {listed(roles)}",
    )


def slots_cut_over_devices(span: Span) -> Diagnostic:
    """A rule `slots -> sharded(devices)`: slots are cut over the clones."""
    return error(
        "TFD408",
        "slots are cut over the clones, and not over devices",
        span,
        text="expected `sharded(clones)`",
        notes=(
            "with `variables -> replicated`, each clone keeps and updates its part beside its copy",
            "slots of variables in pieces are beside their pieces without a rule",
        ),
        fix=replacing("write `sharded(clones)`", span, "sharded(clones)"),
    )


def variables_cut_over_clones(span: Span) -> Diagnostic:
    """A rule `variables -> sharded(clones)`."""
    return error(
        "TFD408",
        "variables are cut over devices, and `clones` are none",
        span,
        text="expected devices, such as `gpu[*]`",
        help="name the devices of the clones, as in `variables -> sharded(gpu[*])`, or give every clone a"
        " whole copy of the variables with a part of their slots: `variables -> replicated` with"
        " `slots -> sharded(clones)`",
    )


def measure_arguments(name: str, wanted: Sequence[str], span: Span) -> Diagnostic:
    """A measure with the wrong number of arguments.

    Args:
        name: The name of the measure.
        wanted: What it takes, in order.
        span: The place of the measure in the spec.
    """
    said = {"devices": "devices", "glob": "a glob on the names of ops"}
    return error(
        "TFD406",
        f"{quoted(name)} takes {joined([said.get(each, quoted(each)) for each in wanted])}",
        span,
        text=f"expected {counted(len(wanted), 'argument')}",
    )
