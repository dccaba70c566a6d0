"""TFD2xx and TFD4xx: devices, placement rules and conditions."""

from __future__ import annotations

from dsl.diagnostics import Diagnostic, Label
from dsl.errors.wording import Replacing, Wording, counted, quoted, unknown
from dsl.source import Span

no_such_device = unknown(
    "TFD402: {name:quoted} is no device of this spec",
    "device",
    "the devices are called {known?:alternatives {name}}",
)
none_declared = Wording(
    "TFD402: the spec declares no {noun}",
    text="there is none",
    places={"at?": "the devices are declared here"},
    help="declare `{kind} = ...` in `devices`, or place this elsewhere",
)
index_missing = Wording(
    "TFD408: {name:quoted} needs the number of {what}",
    text="expected `[` after this",
    help="write `{name}[0]`, a range such as `{name}[0..3]`, or `{name}[*]` for all",
)
segment_after_device = Wording("TFD402: a {kind} has no parts", text="expected nothing more")
swapped_rule = Wording(
    "TFD205: this rule has its sides the wrong way round",
    text="expected `selector -> target`",
    help="write `{what} -> {where}`",
    fix=Replacing("swap the sides", "{what} -> {where}"),
)
two_targets = Wording(
    "TFD205: a rule has one target", text="a second one", help="write two rules, or a list `[a, b]`"
)
one_device_only = Wording(
    "TFD412: {role:quoted} is in one place, and {count:counted device} are named",
    text="expected one device",
    help="name the one device to use, as in `cpu[0]`",
)
unknown_selector = unknown(
    "TFD404: there is no selector {name:quoted}",
    "selector",
    "the selectors are {known?:alternatives {name}}",
)
glob_missing = Wording(
    "TFD406: {name:quoted} needs a glob",
    text='expected `("...")` after this',
    help='write it as in `{name}("conv1/*")`',
)
target_needs_devices = Wording(
    "TFD406: {name:quoted} needs one set of devices",
    text="expected devices in brackets after this",
    help="write it as in `{name}({groups:|gpu[*], size = 2|ps[*]})`",
)
target_inside = Wording(
    "TFD408: `{inner}` is no set of devices",
    text="expected the devices of `{outer}`",
    notes=("`{outer}` and `{inner}` are two ways of placing, and a rule has one",),
    help="write it as in `{outer}(cpu[*])`",
)
target_not_for = Wording(
    "TFD408: `{target}` is no target for `{role}`", text="this is a target for {roles:listed}"
)
too_many_device_sets = Wording(
    "TFD405: {name:quoted} takes one set of devices, and {given:d} are given",
    text="one too many",
    notes=("its other arguments have names, as in `{named?}`",),
    help="write several devices as one set, as in `{name}([ps[0], ps[1]]{groups:|, size = 2|})`",
)
measure_arguments = Wording(
    "TFD406: {name:quoted} takes {takes?:|{takes:joined}|no arguments}",
    text="expected {takes?:|{takes:counted argument}|no arguments}",
)
slots_cut_over_devices = Wording(
    "TFD408: slots are cut over the clones, and not over devices",
    text="expected `sharded(clones)`",
    notes=(
        "with `variables -> replicated`, each clone keeps and updates its part beside its copy",
        "slots of variables in pieces are beside their pieces without a rule",
    ),
    fix=Replacing("write `sharded(clones)`", "sharded(clones)"),
)
variables_cut_over_clones = Wording(
    "TFD408: variables are cut over devices, and `clones` are none",
    text="expected devices, such as `gpu[*]`",
    help="name the devices of the clones, as in `variables -> sharded(gpu[*])`, or give every clone a"
    " whole copy of the variables with a part of their slots: `variables -> replicated` with"
    " `slots -> sharded(clones)`",
)


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
    """Return the diagnostic of an index, perhaps the end of a range, beyond the `count` devices or tasks."""
    if count == 1:
        there, near = f"only {counted(count, noun)} is declared (number 0)", "0"
    else:
        there = f"only {counted(count, noun)} are declared (0..{count - 1})"
        near = f"`0..{count - 1}`" if in_range else f"a number from 0 to {count - 1}"
    return Diagnostic(
        "TFD402",
        f"{quoted(name)} does not exist",
        span,
        f"index {index}",
        labels=() if declared is None else (Label(declared, there),),
        notes=(*(("ranges include both ends",) if in_range else ()), *(() if declared else (there,))),
        help=f"use {near}, or raise `{attribute}` to {index + 1}",
    )
