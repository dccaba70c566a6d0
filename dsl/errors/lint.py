"""TFD6xx: warnings of what is allowed but probably a mistake."""

from __future__ import annotations

from collections.abc import Sequence

from dsl.diagnostics import Diagnostic, Severity
from dsl.errors.wording import Wording, counted, listed, unknown
from dsl.source import Span

_SHOWN = 6


def _unused(message: str, text: str = "unused", help: str = "remove it, or use it") -> Wording:  # noqa: A002
    return Wording(f"warning {message}", text=text, help=help)


_NOWHERE = "goes into no loss, metric, output or other binding"

unused_binding = _unused("TFD601: nothing uses {name:quoted}", _NOWHERE)
unused_output = _unused("TFD601: nothing uses {name:quoted}", _NOWHERE, "write `_` in its place")
unused_constant = _unused("TFD602: nothing uses the constant {name:quoted}")
devices_without_clones = Wording(
    "warning TFD608: {names:count} of {of:counted device} for clones {names:has} no clone",
    text="fewer clones than devices",
    places={"rule?": "more devices than clones"},
    notes=("without a clone: {names:alternatives}",),
    help="raise `clones.count`, or give the clones fewer devices",
)
ineffective_rule = Wording(
    "warning TFD604: this rule never decides anything",
    text="always overruled",
    places={"later": "the last rule that matches wins, and this one always matches"},
    help="remove it, or put the more special rule last",
)
rule_without_sums = Wording(
    "warning TFD604: this rule never decides anything",
    text="no gradients are summed there",
    places={"copies?": "every clone has its own copy"},
    notes=("{reason}",),
    help="remove it",
)
rule_without_things = Wording(
    "warning TFD604: this rule never decides anything",
    text="nothing is placed by it",
    notes=("{reason}",),
    help="remove it",
)
unused_layer = _unused("TFD605: nothing uses the layer {name:quoted}")
unknown_lint = unknown(
    "warning TFD606: there is no lint {name:quoted}", "lint", "the lints are {known?:alternatives {name}}"
)


def unused_gpus(names: Sequence[str], of: int, span: Span) -> Diagnostic:
    """Warn of GPUs, of all there are, without anything on them; `span` is where their number is declared."""
    some = f"{len(names)} of {counted(of, 'GPU')}" if of > 1 else "the GPU"
    return Diagnostic(
        "TFD603",
        f"nothing is placed on {some}",
        span,
        "declared here",
        severity=Severity.WARNING,
        notes=(f"idle: {listed(names[:_SHOWN])}" + (" and others" if len(names) > _SHOWN else ""),),
        help="raise `clones.count`, place something there, or declare fewer",
    )


def uneven_clones(count: int, places: int, size: int, span: Span) -> Diagnostic:
    """Warn of more clones than devices, or groups of `size` devices, and not a multiple of them."""
    less, more, left = count // places, count // places + 1, count % places
    what = "device" if size == 1 else "group"
    return Diagnostic(
        "TFD607",
        f"{count} clones on {counted(places, what)}: some have {more}, others {less}",
        span,
        f"{left} of {places} {what}s with {counted(more, 'clone')}",
        severity=Severity.WARNING,
        notes=("each step waits for the device with the most work",),
        help=f"use {count - left} or {count - left + places} clones, or other devices",
    )
